"""A list as a global."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)

WEIGHTS = [1.0, 2.0]


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x) * WEIGHTS[0])


kernel[(1,)](X)

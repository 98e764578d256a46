"""A plain Python number as a global."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)

SCALE = 2.0


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x) * SCALE)


kernel[(1,)](X)

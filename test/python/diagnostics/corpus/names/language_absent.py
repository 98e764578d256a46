"""A function the language does not have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.frobnicate(x))


kernel[(1,)](X)

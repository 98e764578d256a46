"""A range of floats."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    for i in range(0, n, 0.5):
        kl.store(x, i)


kernel[(1,)](X, 7)

"""The difference of two pointers."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
Y = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, y):
    kl.store(x, x - y)


kernel[(1,)](X, Y)

"""Pointers of two element types are compared."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
I = np.zeros(64, np.int32)


@kiln.jit
def kernel(x, i):
    kl.store(i, x == i)


kernel[(1,)](X, I)

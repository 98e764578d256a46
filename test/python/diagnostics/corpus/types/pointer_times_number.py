"""Arithmetic on a pointer instead of the value it points to."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, x * 2)


kernel[(1,)](X)

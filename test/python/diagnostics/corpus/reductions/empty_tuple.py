"""No tile to reduce."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def add(a, b):
    return a + b


@kiln.jit
def kernel(x):
    kl.store(x, kl.reduce((), 0, add))


kernel[(1,)](X)

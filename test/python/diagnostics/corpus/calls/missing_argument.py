"""A jit function with an argument missing."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def axpy(a, x, y):
    return a * x + y


@kiln.jit
def kernel(x):
    kl.store(x, axpy(2.0, kl.load(x)))


kernel[(1,)](X)

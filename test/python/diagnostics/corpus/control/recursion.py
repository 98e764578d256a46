"""A function that calls itself."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def factorial(n):
    return n * factorial(n - 1)


@kiln.jit
def kernel(x, n):
    kl.store(x, factorial(n))


kernel[(1,)](X, 7)

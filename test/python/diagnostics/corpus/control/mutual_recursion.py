"""Two functions that call each other."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def even(n):
    return odd(n - 1)


@kiln.jit
def odd(n):
    return even(n - 1)


@kiln.jit
def kernel(x, n):
    kl.store(x, even(n))


kernel[(1,)](X, 7)

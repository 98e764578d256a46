"""A constexpr function called with a run-time value."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.constexpr_function
def half(n):
    return n // 2


@kiln.jit
def kernel(x, n):
    kl.store(x, half(n))


kernel[(1,)](X, 7)

"""A run-time value passed for a constexpr parameter of a helper that needs a constant there."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def fill(x, COUNT: kl.constexpr):
    kl.store(x + kl.arange(0, COUNT), 0.0)


@kiln.jit
def kernel(x, n):
    fill(x, n * 2)


kernel[(1,)](X, 8)

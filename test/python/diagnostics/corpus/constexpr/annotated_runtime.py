"""A constexpr annotation on a run-time value."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    half: kl.constexpr = n // 2
    kl.store(x + kl.arange(0, half), 0.0)


kernel[(1,)](X, 64)

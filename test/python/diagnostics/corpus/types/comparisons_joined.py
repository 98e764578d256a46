"""Comparisons joined by & without parentheses."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    i = kl.arange(0, 64)
    kl.store(x + i, 1.0, mask=i >= 0 & i < n)


kernel[(1,)](X, 7)

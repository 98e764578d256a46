"""Tuples of two lengths returned."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def pick(x, n):
    if n > 3:
        return kl.load(x), kl.load(x + 1)
    return kl.load(x), kl.load(x + 1), n


@kiln.jit
def kernel(x, n):
    a, b = pick(x, n)
    kl.store(x, a + b)


kernel[(1,)](X, 7)

"""A store mask of another shape."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, 0.0, mask=kl.arange(0, 32) < n)


kernel[(1,)](X, 7)

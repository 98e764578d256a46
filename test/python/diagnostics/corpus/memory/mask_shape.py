"""A mask of another shape."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    offsets = kl.arange(0, 64)
    mask = kl.arange(0, 32) < n
    kl.store(x + offsets, kl.load(x + offsets, mask=mask))


kernel[(1,)](X, 7)

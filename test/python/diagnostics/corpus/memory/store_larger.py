"""A tile stored through pointers of a smaller shape."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 8)
    kl.store(x + offsets, kl.zeros((8, 8), kl.float32))


kernel[(1,)](X)

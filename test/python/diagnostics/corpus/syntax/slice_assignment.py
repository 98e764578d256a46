"""A slice of a tile assigned to."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    tile = kl.zeros((64,), kl.float32)
    tile[0:4] = 1.0
    kl.store(x + kl.arange(0, 64), tile)


kernel[(1,)](X)

"""A tile asked for numpy's attributes."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    tile = kl.load(x + kl.arange(0, 64))
    kl.store(x, tile.size)


kernel[(1,)](X)

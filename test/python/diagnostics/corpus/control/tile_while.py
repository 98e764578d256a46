"""A while on a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    tile = kl.load(x + kl.arange(0, 64))
    while tile > 0:
        tile = tile - 1
    kl.store(x + kl.arange(0, 64), tile)


kernel[(1,)](X)

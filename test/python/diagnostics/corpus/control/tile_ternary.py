"""A conditional expression on a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    tile = kl.load(x + offsets)
    kl.store(x + offsets, tile if tile > 0 else 0.0)


kernel[(1,)](X)

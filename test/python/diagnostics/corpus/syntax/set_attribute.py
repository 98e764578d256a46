"""An attribute assigned to."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    tile = kl.load(x)
    tile.scale = 2.0
    kl.store(x, tile)


kernel[(1,)](X)

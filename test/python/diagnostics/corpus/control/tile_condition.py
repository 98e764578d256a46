"""An if on a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    tile = kl.load(x + kl.arange(0, 64))
    if tile > 0:
        kl.store(x, 1.0)


kernel[(1,)](X)

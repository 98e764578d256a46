"""Value and pointer swapped in a store."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    tile = kl.load(x + offsets)
    kl.store(tile, x + offsets)


kernel[(1,)](X)

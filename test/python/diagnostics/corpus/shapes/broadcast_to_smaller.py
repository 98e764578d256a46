"""broadcast_to a shape that does not contain the tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.broadcast_to(kl.load(x + offsets), (32,)))


kernel[(1,)](X)

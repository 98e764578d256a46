"""A pointer instead of a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(kl.dot(x, kl.zeros((16, 16), kl.float32))))


kernel[(1,)](X)

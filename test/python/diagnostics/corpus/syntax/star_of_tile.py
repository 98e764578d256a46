"""* of a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, max(*kl.load(x + kl.arange(0, 8))))


kernel[(1,)](X)

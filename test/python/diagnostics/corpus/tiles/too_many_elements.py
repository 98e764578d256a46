"""More elements than a tile can have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(kl.zeros((4096, 4096), kl.float32)))


kernel[(1,)](X)

"""A name assigned on one branch only."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    if n > 3:
        scale = 2.0
    kl.store(x, scale)


kernel[(1,)](X, 7)

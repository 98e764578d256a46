"""A name assigned on the else branch only."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    if n > 3:
        kl.store(x, 1.0)
    else:
        scale = 2.0
    kl.store(x, scale)


kernel[(1,)](X, 7)

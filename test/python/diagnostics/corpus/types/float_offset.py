"""A pointer steps by a float."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x + n * 0.5, 1.0)


kernel[(1,)](X, 7)

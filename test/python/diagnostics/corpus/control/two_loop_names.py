"""Two names for the index of a counted loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    for i, j in range(n):
        kl.store(x + i, j)


kernel[(1,)](X, 7)

"""raise."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    if n > 3:
        raise ValueError("n is too large")
    kl.store(x, 1.0)


kernel[(1,)](X, 7)

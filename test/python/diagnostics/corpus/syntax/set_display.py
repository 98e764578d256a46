"""A set."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, 1.0 if n in {1, 2} else 0.0)


kernel[(1,)](X, 7)

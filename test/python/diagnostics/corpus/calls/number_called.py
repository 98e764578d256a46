"""A number is called: an operator is missing."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x + n(2), 1.0)


kernel[(1,)](X, 7)

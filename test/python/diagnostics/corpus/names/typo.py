"""A name with a typing mistake."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, offset):
    kl.store(x + ofset, 0.0)


kernel[(1,)](X, 7)

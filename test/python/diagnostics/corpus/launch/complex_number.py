"""A complex number."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, z):
    kl.store(x, z)


kernel[(1,)](X, 2j)

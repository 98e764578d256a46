"""A local read before it is assigned."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, total)
    total = 1.0


kernel[(1,)](X)

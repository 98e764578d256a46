"""A tuple indexed by a run-time value."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    pair = (1.0, 2.0)
    kl.store(x, pair[n])


kernel[(1,)](X, 7)

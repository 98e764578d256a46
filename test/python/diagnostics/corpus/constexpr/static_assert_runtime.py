"""static_assert of a run-time condition."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.static_assert(n < 100)
    kl.store(x, n)


kernel[(1,)](X, 7)

"""A tile as mask of a scalar pointer."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, kl.load(x, mask=kl.arange(0, 64) < n, other=0.0))


kernel[(1,)](X, 7)

"""A store through an argument that is marked as read only."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x: kl.const, n):
    at = kl.arange(0, 64)
    kl.store(x + at, 0.0, mask=at < n)


kernel[(1,)](X, 64)

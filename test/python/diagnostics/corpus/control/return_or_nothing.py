"""A value on one path, nothing on the other."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def pick(x, n):
    if n > 3:
        return kl.load(x)


@kiln.jit
def kernel(x, n):
    kl.store(x, pick(x, n))


kernel[(1,)](X, 7)

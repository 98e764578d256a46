"""A shape with a side known only at run time."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, kl.sum(kl.zeros((n, 4), kl.float32)))


kernel[(1,)](X, 64)

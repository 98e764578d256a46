"""Pointers are summed: the load was forgotten."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(x + kl.arange(0, 64)))


kernel[(1,)](X)

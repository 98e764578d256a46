"""A combine function that returns a tile."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def add(a, b):
    return a + b + kl.arange(0, 4)


@kiln.jit
def kernel(i):
    kl.store(i, kl.reduce(kl.load(i + kl.arange(0, 64)), 0, add))


kernel[(1,)](I)

"""A combine function that makes a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def add(a, b):
    return a + b + kl.sum(kl.arange(0, 4))


@kiln.jit
def kernel(x):
    kl.store(x, kl.reduce(kl.load(x + kl.arange(0, 64)), 0, add))


kernel[(1,)](X)

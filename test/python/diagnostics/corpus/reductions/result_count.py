"""A combine function that returns one value for two tiles."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def add(a, i, b, j):
    return a + b


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    total, place = kl.reduce((kl.load(x + offsets), offsets), 0, add)
    kl.store(x, total + place)


kernel[(1,)](X)

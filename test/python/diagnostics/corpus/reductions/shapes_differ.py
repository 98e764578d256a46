"""Tiles of two shapes reduced together."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def add(a, i, b, j):
    return a + b, i + j


@kiln.jit
def kernel(x):
    total, place = kl.reduce((kl.load(x + kl.arange(0, 64)), kl.arange(0, 32)), 0, add)
    kl.store(x, total + place)


kernel[(1,)](X)

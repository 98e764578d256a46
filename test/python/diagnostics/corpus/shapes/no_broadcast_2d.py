"""Sides that differ in one dimension of two."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    rows = kl.arange(0, 8)[:, None] * 8 + kl.arange(0, 8)[None, :]
    wide = kl.arange(0, 8)[:, None] * 4 + kl.arange(0, 4)[None, :]
    kl.store(x + rows, kl.load(x + rows) * kl.load(x + wide))


kernel[(1,)](X)

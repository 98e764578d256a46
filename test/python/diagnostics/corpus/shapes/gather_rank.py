"""Indices of another rank than the source."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 8)[:, None] * 8 + kl.arange(0, 8)[None, :]
    kl.store(x + kl.arange(0, 8), kl.gather(kl.load(x + offsets), kl.arange(0, 8), 0))


kernel[(1,)](X)

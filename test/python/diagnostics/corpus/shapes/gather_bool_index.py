"""Bools as indices."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.gather(kl.load(x + offsets), offsets > 3, 0))


kernel[(1,)](X)

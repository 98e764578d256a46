"""A scalar reversed."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.flip(kl.load(x)))


kernel[(1,)](X)

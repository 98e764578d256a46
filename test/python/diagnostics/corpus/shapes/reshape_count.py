"""A reshape that changes the number of elements."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x + kl.arange(0, 64), kl.reshape(kl.load(x + kl.arange(0, 64)), (8, 4)))


kernel[(1,)](X)

"""A range up to a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    for i in range(kl.arange(0, 8)):
        kl.store(x, i)


kernel[(1,)](X)

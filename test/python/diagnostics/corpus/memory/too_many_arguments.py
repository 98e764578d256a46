"""A store with more arguments than it has."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, 0.0, None, (), "", "", 7)


kernel[(1,)](X)

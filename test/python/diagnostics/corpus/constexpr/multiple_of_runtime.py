"""A hint whose number is not known at compile time."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x + kl.multiple_of(n, n), 0.0)


kernel[(1,)](X, 7)

"""A grid function that returns nothing."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, n)


kernel[lambda meta: None](X, 7)

"""** is not an operator in kernels."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x) ** 2)


kernel[(1,)](X)

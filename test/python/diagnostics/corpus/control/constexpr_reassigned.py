"""A constexpr changed in a loop and used as a side."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    for i in range(n):
        BLOCK = BLOCK * 2
    kl.store(x + kl.arange(0, BLOCK), 0.0)


kernel[(1,)](X, 7, 4)

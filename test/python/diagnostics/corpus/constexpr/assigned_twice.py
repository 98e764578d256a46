"""A constexpr that is assigned again."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    SIDE: kl.constexpr = 32
    kl.store(x + kl.arange(0, SIDE), 1.0)
    SIDE = 64
    kl.store(x + kl.arange(0, SIDE), 2.0)


kernel[(1,)](X)

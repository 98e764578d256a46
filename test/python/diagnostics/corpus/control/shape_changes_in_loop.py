"""A scalar becomes a tile in a loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    total = 0.0
    for i in range(n):
        total += kl.load(x + i * 8 + kl.arange(0, 8))
    kl.store(x + kl.arange(0, 8), total)


kernel[(1,)](X, 7)

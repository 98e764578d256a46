"""A variable changes its type in a loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    total = 0
    for i in range(n):
        total = total + kl.load(x + i)
    kl.store(x, total)


kernel[(1,)](X, 7)

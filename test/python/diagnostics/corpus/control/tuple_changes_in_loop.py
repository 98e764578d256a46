"""A tuple grows in a loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    parts = (kl.load(x),)
    for i in range(n):
        parts = parts + (kl.load(x + i),)
    kl.store(x, parts[0])


kernel[(1,)](X, 7)

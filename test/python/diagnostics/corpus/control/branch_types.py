"""A name of two types after an if."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    if n > 3:
        value = kl.load(x)
    else:
        value = kl.load(x + kl.arange(0, 8))
    kl.store(x + kl.arange(0, 8), value)


kernel[(1,)](X, 7)

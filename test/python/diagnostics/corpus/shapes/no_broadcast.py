"""Two tiles of different sides are added."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
Y = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, y):
    a = kl.load(x + kl.arange(0, 32))
    b = kl.load(y + kl.arange(0, 64))
    kl.store(x, kl.sum(a + b))


kernel[(1,)](X, Y)

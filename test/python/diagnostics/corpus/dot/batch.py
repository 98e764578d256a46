"""Two batch sides."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((2, 16, 16), kl.float32)
    b = kl.zeros((4, 16, 16), kl.float32)
    kl.store(x, kl.sum(kl.dot(a, b)))


kernel[(1,)](X)

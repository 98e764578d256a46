"""A product of tiles whose two batch dimensions differ."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((2, 2, 16, 16), kl.float16)
    b = kl.zeros((4, 1, 16, 16), kl.float16)
    kl.store(x, kl.sum(kl.dot(a, b)))


kernel[(1,)](X)

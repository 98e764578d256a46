"""A product of 32-bit integers."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    a = kl.zeros((16, 16), kl.int32)
    kl.store(i, kl.sum(kl.dot(a, a)))


kernel[(1,)](I)

"""A product of unsigned bytes."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 16), kl.uint8)
    kl.store(x, kl.sum(kl.dot(a, a)))


kernel[(1,)](X)

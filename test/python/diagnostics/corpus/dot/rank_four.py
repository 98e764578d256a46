"""A product of tiles with two batch dimensions."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((2, 2, 16, 16), kl.float16)
    kl.store(x, kl.sum(kl.dot(a, a)))


kernel[(1,)](X)

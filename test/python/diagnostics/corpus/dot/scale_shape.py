"""Scales of a wrong shape."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 32), kl.uint8)
    b = kl.zeros((32, 16), kl.uint8)
    scale = kl.zeros((16, 2), kl.uint8)
    kl.store(x, kl.sum(kl.dot_scaled(a, scale, "e4m3", b, None, "e4m3")))


kernel[(1,)](X)

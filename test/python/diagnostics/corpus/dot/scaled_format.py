"""A format of a scaled operand that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 32), kl.uint8)
    b = kl.zeros((32, 16), kl.uint8)
    kl.store(x, kl.sum(kl.dot_scaled(a, None, "e3m4", b, None, "e4m3")))


kernel[(1,)](X)

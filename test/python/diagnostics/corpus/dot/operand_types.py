"""Operands of two types."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 32), kl.float16)
    b = kl.zeros((32, 16), kl.bfloat16)
    kl.store(x, kl.sum(kl.dot(a, b)))


kernel[(1,)](X)

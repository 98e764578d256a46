"""A product of fp8 and fp16."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 16), kl.float8e5)
    b = kl.zeros((16, 16), kl.float16)
    kl.store(x, kl.sum(kl.dot(a, b)))


kernel[(1,)](X)

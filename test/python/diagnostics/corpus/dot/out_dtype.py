"""A product rounded to bfloat16."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 16), kl.bfloat16)
    kl.store(x, kl.sum(kl.dot(a, a, out_dtype=kl.bfloat16)))


kernel[(1,)](X)

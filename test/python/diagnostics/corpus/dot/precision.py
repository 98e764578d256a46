"""A precision that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 16), kl.float32)
    kl.store(x, kl.sum(kl.dot(a, a, input_precision="tf31")))


kernel[(1,)](X)

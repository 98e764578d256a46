"""A negative side."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.store(x, kl.sum(kl.zeros((N - 8,), kl.float32)))


kernel[(1,)](X, 4)

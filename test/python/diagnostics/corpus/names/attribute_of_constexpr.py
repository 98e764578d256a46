"""An attribute a constexpr does not have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.store(x, N.size)


kernel[(1,)](X, 8)

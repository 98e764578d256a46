"""An array for a constexpr parameter."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), 1.0)


kernel[(1,)](X, X)

"""An argument is missing."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)


kernel[(1,)](X, 7)

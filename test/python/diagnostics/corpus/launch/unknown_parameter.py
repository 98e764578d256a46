"""A meta-parameter with a typing mistake."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK_SIZE: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK_SIZE), 1.0)


kernel[(1,)](X, BLOKC_SIZE=64)

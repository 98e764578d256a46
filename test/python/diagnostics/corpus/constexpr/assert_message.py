"""A failed assertion whose message is a tuple."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK: kl.constexpr):
    assert BLOCK >= 128, ("BLOCK", BLOCK)
    kl.store(x + kl.arange(0, BLOCK), 0.0)


kernel[(1,)](X, BLOCK=64)

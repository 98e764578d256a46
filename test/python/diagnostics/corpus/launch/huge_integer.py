"""An integer of more than 64 bits."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, n)


kernel[(1,)](X, 2**70)

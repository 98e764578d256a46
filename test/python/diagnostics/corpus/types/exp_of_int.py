"""exp of integers."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.store(i, kl.exp(kl.load(i)))


kernel[(1,)](I)

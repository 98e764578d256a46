"""A mask of ints for a histogram."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    offsets = kl.arange(0, 64)
    kl.store(i + kl.arange(0, 8), kl.histogram(kl.load(i + offsets), 8, mask=offsets))


kernel[(1,)](I)

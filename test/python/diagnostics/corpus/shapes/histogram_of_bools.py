"""A histogram of bools."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    offsets = kl.arange(0, 64)
    kl.store(i + kl.arange(0, 2), kl.histogram(kl.load(i + offsets) > 3, 2))


kernel[(1,)](I)

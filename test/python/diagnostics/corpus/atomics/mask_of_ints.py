"""An atomic with a mask of ints."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    offsets = kl.arange(0, 8)
    kl.atomic_add(i + offsets, 1, mask=offsets)


kernel[(1,)](I)

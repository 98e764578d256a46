"""A tile added to one address."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.atomic_add(i, kl.arange(0, 8))


kernel[(1,)](I)

"""A tuple exchanged."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.atomic_xchg(i, (1, 2))


kernel[(1,)](I)

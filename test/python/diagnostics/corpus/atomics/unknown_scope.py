"""A scope that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.atomic_add(i, 1, scope="warp")


kernel[(1,)](I)

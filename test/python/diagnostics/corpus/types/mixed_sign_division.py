"""A quotient of a signed and an unsigned tile."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i, u):
    kl.store(i, kl.load(i) // kl.load(u))


kernel[(1,)](I, np.zeros(64, np.uint32))

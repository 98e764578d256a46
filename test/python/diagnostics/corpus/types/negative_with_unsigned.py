"""A negative number meets an unsigned tile."""

import numpy as np

import kiln
import kiln.language as kl


@kiln.jit
def kernel(u):
    kl.store(u, kl.load(u) + -1)


kernel[(1,)](np.zeros(64, np.uint32))

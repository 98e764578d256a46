"""A device_assert message that is not a string."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.device_assert(n > 3, n)
    kl.store(x, 1.0)


kernel[(1,)](X, 7)

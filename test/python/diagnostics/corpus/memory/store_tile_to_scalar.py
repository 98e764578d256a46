"""A tile stored through one pointer."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.zeros((64,), kl.float32))


kernel[(1,)](X)

"""A generator that delegates."""

import numpy as np

import kiln

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    yield from range(3)


kernel[(1,)](X)

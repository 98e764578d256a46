"""A pointer replaced by one of another type in a loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
I = np.zeros(64, np.int32)


@kiln.jit
def kernel(x, i, n):
    place = x
    for k in range(n):
        place = i + k
    kl.store(place, 1)


kernel[(1,)](X, I, 7)

"""else of a while loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    i = 0
    while i < n:
        i += 1
    else:
        kl.store(x, i)


kernel[(1,)](X, 7)

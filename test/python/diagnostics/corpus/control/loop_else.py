"""else of a loop."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    for i in range(n):
        kl.store(x + i, 0.0)
    else:
        kl.store(x, 1.0)


kernel[(1,)](X, 7)

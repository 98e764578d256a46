"""An element deleted."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    pair = (1.0, 2.0)
    del pair[0]
    kl.store(x, pair[0])


kernel[(1,)](X)

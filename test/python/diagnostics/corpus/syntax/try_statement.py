"""try."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    try:
        kl.store(x, 1.0)
    except ValueError:
        kl.store(x, 0.0)


kernel[(1,)](X)

"""import."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    import math

    kl.store(x, math.pi)


kernel[(1,)](X)

"""Three values unpacked into two names."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a, b = 1.0, 2.0, 3.0
    kl.store(x, a + b)


kernel[(1,)](X)

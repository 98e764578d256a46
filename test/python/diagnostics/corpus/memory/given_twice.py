"""An argument given by position and by name."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, 0.0, value=1.0)


kernel[(1,)](X)

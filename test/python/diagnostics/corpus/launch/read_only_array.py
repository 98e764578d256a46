"""An array that may not be written."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


X.flags.writeable = False
kernel[(1,)](X)

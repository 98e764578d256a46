"""The second array is the one at fault."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
Y = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, y):
    kl.store(x, 1.0)


kernel[(1,)](X, Y[::-1].astype(">f4"))

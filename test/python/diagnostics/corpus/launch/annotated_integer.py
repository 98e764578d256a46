"""An array for a parameter annotated as an integer."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n: kl.int64):
    kl.store(x, n)


kernel[(1,)](X, X)

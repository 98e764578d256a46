"""yield."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    yield kl.load(x)


kernel[(1,)](X)

"""A numpy array as a global."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)

TABLE = np.arange(4)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x) * TABLE[0])


kernel[(1,)](X)

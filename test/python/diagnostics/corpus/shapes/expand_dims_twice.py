"""The same new axis twice."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(kl.expand_dims(kl.arange(0, 8), (0, 0))))


kernel[(1,)](X)

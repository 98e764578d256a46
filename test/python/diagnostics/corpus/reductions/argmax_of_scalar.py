"""The index of a scalar's maximum."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.argmax(kl.load(x), 0))


kernel[(1,)](X)

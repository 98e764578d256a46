"""A text in a tuple of an array and a number."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(pair):
    kl.store(pair[0], pair[1])


kernel[(1,)]((X, "seven"))

"""A plain Python function called with tiles."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


def double(value):
    return value * 2


@kiln.jit
def kernel(x):
    kl.store(x, double(kl.load(x)))


kernel[(1,)](X)

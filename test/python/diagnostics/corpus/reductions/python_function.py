"""A plain Python function combines."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


def add(a, b):
    return a + b


@kiln.jit
def kernel(x):
    kl.store(x, kl.reduce(kl.load(x + kl.arange(0, 64)), 0, add))


kernel[(1,)](X)

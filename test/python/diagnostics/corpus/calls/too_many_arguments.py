"""A jit function with an argument too many."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def double(a):
    return a * 2


@kiln.jit
def kernel(x):
    kl.store(x, double(kl.load(x), 2.0))


kernel[(1,)](X)

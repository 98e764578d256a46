"""A combine function of one parameter."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def double(a):
    return a * 2


@kiln.jit
def kernel(x):
    kl.store(x, kl.reduce(kl.load(x + kl.arange(0, 64)), 0, double))


kernel[(1,)](X)

"""map_elementwise of a plain Python function."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


def double(a):
    return a * 2


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.map_elementwise(double, kl.load(x + offsets)))


kernel[(1,)](X)

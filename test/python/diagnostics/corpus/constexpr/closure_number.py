"""A number of an enclosing function."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


def make(scale):
    @kiln.jit
    def kernel(x):
        kl.store(x, kl.load(x) * scale)

    return kernel


make(2.0)[(1,)](X)

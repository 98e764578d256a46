"""A function inside a kernel."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    def double(value):
        return value * 2

    kl.store(x, double(kl.load(x)))


kernel[(1,)](X)

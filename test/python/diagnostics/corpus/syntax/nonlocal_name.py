"""nonlocal."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


def make():
    total = kl.constexpr(1)

    @kiln.jit
    def kernel(x):
        nonlocal total
        total = 2
        kl.store(x, 1.0)

    return kernel


make()[(1,)](X)

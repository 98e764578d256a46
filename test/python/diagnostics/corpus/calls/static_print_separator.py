"""A separator that is not a string."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.static_print("n", n, sep=n)
    kl.store(x, n)


kernel[(1,)](X, 7)

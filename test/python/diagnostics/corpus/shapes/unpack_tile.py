"""A tile unpacked like a tuple."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a, b = kl.load(x + kl.arange(0, 2))
    kl.store(x, a + b)


kernel[(1,)](X)

"""Python's float as an element type."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(kl.zeros((4,), float)))


kernel[(1,)](X)

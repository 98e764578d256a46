"""A name read after del."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    total = kl.load(x)
    del total
    kl.store(x, total)


kernel[(1,)](X)

"""A float of 8 bits that no target has."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x).to(kl.float8e4b8).to(kl.float32))


kernel[(1,)](X)

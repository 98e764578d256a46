"""A side outside the rule 2^k * m."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x + kl.arange(0, 37), 0.0)


kernel[(1,)](X)

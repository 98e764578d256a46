"""None where a number is needed: an optional argument was not checked."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, bias):
    kl.store(x, kl.load(x) + bias)


kernel[(1,)](X, None)

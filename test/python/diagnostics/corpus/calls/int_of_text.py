"""int of a string that is not a number."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, int("seven"))


kernel[(1,)](X)

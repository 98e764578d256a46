"""with."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    with open("log.txt") as file:
        kl.store(x, 1.0)


kernel[(1,)](X)

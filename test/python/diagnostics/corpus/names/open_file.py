"""Input and output inside a kernel."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    open("log.txt")
    kl.store(x, 0.0)


kernel[(1,)](X)

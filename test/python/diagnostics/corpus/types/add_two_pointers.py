"""Two pointers are added; only an offset can be added to one."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
Y = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, y):
    kl.store(x + y, 1.0)


kernel[(1,)](X, Y)

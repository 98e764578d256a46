"""An f-string of a run-time value."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.device_print(f"n is {n}", n)
    kl.store(x, n)


kernel[(1,)](X, 7)

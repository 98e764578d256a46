"""A string selected at run time."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    if n > 3:
        mode = "a"
    else:
        mode = "b"
    kl.store(x, 1.0 if mode == "a" else 0.0)


kernel[(1,)](X, 7)

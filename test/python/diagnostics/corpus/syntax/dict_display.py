"""A dict."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    table = {"a": 1.0}
    kl.store(x, table["a"])


kernel[(1,)](X)

"""KILN_CHECK=bounds: a store before the beginning."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x + n - 16, 1.0)


with kiln.knobs.scope(check="bounds"):
    kernel[(1,)](X, 7)

"""A kernel launched inside a kernel."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def inner(x):
    kl.store(x, 1.0)


@kiln.jit
def kernel(x):
    inner[(1,)](x)


kernel[(1,)](X)

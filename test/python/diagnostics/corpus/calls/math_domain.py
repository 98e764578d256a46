"""A function of Python's that fails while compiling."""

import math

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.store(x, math.log(N))


kernel[(1,)](X, 0)

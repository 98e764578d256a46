"""An argument of a jit function passed twice."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def scaled(a, factor=2.0):
    return a * factor


@kiln.jit
def kernel(x):
    kl.store(x, scaled(kl.load(x), 2.0, factor=3.0))


kernel[(1,)](X)

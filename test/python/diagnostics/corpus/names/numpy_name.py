"""A function of numpy's by its name in the language."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, np.exp(kl.load(x)))


kernel[(1,)](X)

"""A method of a tile with a typing mistake."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x + kl.arange(0, 64)).summ(0))


kernel[(1,)](X)

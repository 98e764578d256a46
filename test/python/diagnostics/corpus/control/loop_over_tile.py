"""A loop over the elements of a tile."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    for value in kl.load(x + kl.arange(0, 64)):
        kl.store(x, value)


kernel[(1,)](X)

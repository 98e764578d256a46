"""A type of numpy as an element type."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x).to(np.int64))


kernel[(1,)](X)

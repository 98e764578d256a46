"""@ on vectors."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.load(x + kl.arange(0, 8))
    kl.store(x, a @ a)


kernel[(1,)](X)

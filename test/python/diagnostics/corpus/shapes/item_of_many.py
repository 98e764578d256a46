""".item() of a tile with many elements."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x + kl.arange(0, 64)).item())


kernel[(1,)](X)

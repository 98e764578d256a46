"""What was loaded is loaded again."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    tile = kl.load(x + kl.arange(0, 64))
    kl.store(x, kl.sum(kl.load(tile)))


kernel[(1,)](X)

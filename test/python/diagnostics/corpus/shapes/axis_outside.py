"""An axis the tile does not have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(kl.load(x + kl.arange(0, 64)), axis=1))


kernel[(1,)](X)

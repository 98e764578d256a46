"""A plain number does not fit the tile's type."""

import numpy as np

import kiln
import kiln.language as kl


@kiln.jit
def kernel(b):
    kl.store(b, kl.load(b) + 300)


kernel[(1,)](np.zeros(64, np.int8))

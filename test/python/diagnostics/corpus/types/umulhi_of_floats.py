"""The high half of a product of floats."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.umulhi(kl.load(x), 3))


kernel[(1,)](X)

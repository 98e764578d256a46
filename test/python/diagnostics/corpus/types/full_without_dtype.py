"""kl.full without a type."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.sum(kl.full((4,), 1.0, None)))


kernel[(1,)](X)

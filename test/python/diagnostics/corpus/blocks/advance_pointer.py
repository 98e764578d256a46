"""kl.advance of a plain pointer."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(kl.advance(x, (4,)), 0.0)


kernel[(1,)](X)

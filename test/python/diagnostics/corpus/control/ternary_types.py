"""A conditional expression of two types."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, kl.load(x) if n > 3 else kl.load(x).to(kl.float16))


kernel[(1,)](X, 7)

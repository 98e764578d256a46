"""other= of another shape."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.load(x + offsets, mask=offsets < n, other=kl.zeros((32,), kl.float32)))


kernel[(1,)](X, 7)

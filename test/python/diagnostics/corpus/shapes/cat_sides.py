"""cat of tiles whose other sides differ."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((4, 8), kl.float32)
    b = kl.zeros((4, 4), kl.float32)
    kl.store(x, kl.sum(kl.cat(a, b, dim=0)))


kernel[(1,)](X)

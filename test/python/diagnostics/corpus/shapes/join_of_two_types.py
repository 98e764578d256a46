"""join of tiles of two types."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
I = np.zeros(64, np.int32)


@kiln.jit
def kernel(x, i):
    offsets = kl.arange(0, 16)
    kl.store(x, kl.sum(kl.join(kl.load(x + offsets), kl.load(i + offsets))))


kernel[(1,)](X, I)

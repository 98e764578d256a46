"""Compare and swap of a tile of floats with a tile of ints."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
I = np.zeros(64, np.int32)


@kiln.jit
def kernel(x, i):
    offsets = kl.arange(0, 8)
    kl.store(i + offsets, kl.atomic_cas(i + offsets, kl.load(x + kl.arange(0, 4)), 1))


kernel[(1,)](X, I)

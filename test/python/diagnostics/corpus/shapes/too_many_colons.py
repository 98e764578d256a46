"""More ':' than dimensions."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 8)
    kl.store(x + offsets[:, :, None], 0.0)


kernel[(1,)](X)

"""Two conditions for one unlikely branch."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    value = kl.load(x + kl.arange(0, 64))
    if kl.unlikely((value > 8.0, value < -8.0)):
        value = kl.where(value > 0, 8.0, -8.0)
    kl.store(x + kl.arange(0, 64), value)


kernel[(1,)](X)

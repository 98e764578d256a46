"""The caret is under the argument, not the call."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.load(x + offsets, mask=(offsets * 2)))


kernel[(1,)](X)

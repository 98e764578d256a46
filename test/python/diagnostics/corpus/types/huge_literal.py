"""An integer of more than 64 bits."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x) + 2**80)


kernel[(1,)](X)

"""An object no kernel can use."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, thing):
    kl.store(x, 1.0)


kernel[(1,)](X, object())

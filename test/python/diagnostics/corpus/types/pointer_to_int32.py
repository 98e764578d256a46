"""An address kept in 32 bits."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
I = np.zeros(64, np.int32)


@kiln.jit
def kernel(x, i):
    kl.store(i, x.to(kl.int32))


kernel[(1,)](X, I)

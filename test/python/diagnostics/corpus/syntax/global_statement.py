"""global."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)

COUNT = kl.constexpr(0)


@kiln.jit
def kernel(x):
    global COUNT
    COUNT = 1
    kl.store(x, 1.0)


kernel[(1,)](X)

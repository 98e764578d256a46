"""A name that plain assignment made a run-time scalar is used as a side."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK: kl.constexpr):
    half = BLOCK // 2
    kl.store(x + kl.arange(0, half), 0.0)


kernel[(1,)](X, 64)

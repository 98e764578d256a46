"""Two good ends, a length outside the rule."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, START: kl.constexpr):
    kl.store(x + kl.arange(START, 64), 0.0)


kernel[(1,)](X, 3)

"""An assumption that is known to be false."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.assume(N > 16)
    kl.store(x, N)


kernel[(1,)](X, 8)

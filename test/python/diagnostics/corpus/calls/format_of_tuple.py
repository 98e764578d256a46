"""A format that a tuple does not have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.static_assert(N > 8, f"{(N, 8):>5}")


kernel[(1,)](X, 7)

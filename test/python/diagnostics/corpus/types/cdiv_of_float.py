"""Ceiling division of a constexpr float."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.store(x, kl.cdiv(N, 4))


kernel[(1,)](X, 6.5)

"""A constexpr function that raises."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.constexpr_function
def check(n):
    raise ValueError(f"{n} is too small")


@kiln.jit
def kernel(x, N: kl.constexpr):
    kl.store(x, check(N))


kernel[(1,)](X, 7)

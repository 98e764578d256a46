"""A dictionary for a constexpr parameter."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, SIDES: kl.constexpr):
    kl.store(x + kl.arange(0, SIDES["m"]), 1.0)


kernel[(1,)](X, {"m": 4})

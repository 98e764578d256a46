"""A module attribute that is not a constexpr."""

import string

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x) * len(string.digits))


kernel[(1,)](X)

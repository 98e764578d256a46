"""An assertion in a function the kernel calls."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def checked(value):
    assert value >= 0, "negative"
    return value


@kiln.jit
def kernel(x):
    kl.store(x, kl.sqrt(checked(kl.load(x) - 1.0)))


kernel[(1,)](X)

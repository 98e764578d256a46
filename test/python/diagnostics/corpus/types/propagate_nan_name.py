"""The NaN mode given as a string."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.maximum(kl.load(x), 0.0, propagate_nan="all"))


kernel[(1,)](X)

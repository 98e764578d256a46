"""A cache modifier that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x, cache_modifier=".cb"))


kernel[(1,)](X)

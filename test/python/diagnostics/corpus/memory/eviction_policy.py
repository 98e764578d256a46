"""An eviction policy that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x, eviction_policy="last"))


kernel[(1,)](X)

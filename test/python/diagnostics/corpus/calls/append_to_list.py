"""A list's method."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    parts = [kl.load(x)]
    parts.append(kl.load(x + 1))
    kl.store(x, parts[0] + parts[1])


kernel[(1,)](X)

"""A name assigned only inside a loop that may not run."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    for i in range(n):
        last = kl.load(x + i)
    kl.store(x, last)


kernel[(1,)](X, 7)

"""split needs a last side of 2."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    low, high = kl.split(kl.load(x + kl.arange(0, 64)))
    kl.store(x, kl.sum(low + high))


kernel[(1,)](X)

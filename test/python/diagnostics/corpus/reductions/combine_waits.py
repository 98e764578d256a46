"""A combine function with a barrier."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def add(a, b):
    kl.debug_barrier()
    return a + b


@kiln.jit
def kernel(x):
    kl.store(x, kl.reduce(kl.load(x + kl.arange(0, 64)), 0, add))


kernel[(1,)](X)

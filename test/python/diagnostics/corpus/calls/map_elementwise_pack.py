"""map_elementwise of three elements at a time."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def largest(a, b, c):
    return kl.maximum(a, kl.maximum(b, c))


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.map_elementwise(largest, kl.load(x + offsets), pack=3))


kernel[(1,)](X)

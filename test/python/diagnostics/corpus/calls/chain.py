"""The chain of calls from the kernel to a mistake three calls deep."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def inner(a, b):
    return a + b


@kiln.jit
def middle(a):
    return inner(a, kl.arange(0, 16))


@kiln.jit
def outer(a):
    return middle(a) * 2


@kiln.jit
def kernel(x):
    kl.store(x + kl.arange(0, 64), outer(kl.load(x + kl.arange(0, 64))))


kernel[(1,)](X)

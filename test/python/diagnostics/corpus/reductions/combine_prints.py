"""A combine function of a scan that prints."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def add(a, b):
    kl.device_print("a", a)
    return a + b


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    kl.store(x + offsets, kl.associative_scan(kl.load(x + offsets), 0, add))


kernel[(1,)](X)

"""The standard library's random numbers."""

import random

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, random.random())


kernel[(1,)](X)

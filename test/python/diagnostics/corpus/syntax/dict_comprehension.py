"""A dict comprehension."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    squares = {i: i * i for i in kl.static_range(4)}
    kl.store(x, squares[2])


kernel[(1,)](X)

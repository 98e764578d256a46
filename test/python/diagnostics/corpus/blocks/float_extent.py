"""A shape given as a float."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    block = kl.make_block_ptr(x, (n / 2, 8), (8, 1), (0, 0), (4, 4), (1, 0))
    kl.store(block, kl.load(block))


kernel[(1,)](X, 16)

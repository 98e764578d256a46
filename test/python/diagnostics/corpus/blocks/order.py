"""An order that is not a permutation."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    block = kl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 1))
    kl.store(block, kl.load(block))


kernel[(1,)](X)

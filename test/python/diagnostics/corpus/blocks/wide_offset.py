"""A 64-bit offset of a block."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    block = kl.make_block_ptr(x, (8, 8), (8, 1), (n.to(kl.int64), 0), (4, 4), (1, 0))
    kl.store(block, kl.load(block))


kernel[(1,)](X, 7)

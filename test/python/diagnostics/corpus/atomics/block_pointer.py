"""An atomic on a block pointer."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    block = kl.make_block_ptr(i, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))
    kl.atomic_add(block, 1)


kernel[(1,)](I)

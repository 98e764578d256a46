"""NaN as padding of integers."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    block = kl.make_block_ptr(i, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))
    kl.store(block, kl.load(block, boundary_check=(0, 1), padding_option="nan"))


kernel[(1,)](I)

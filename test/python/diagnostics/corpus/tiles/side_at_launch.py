"""A block size from the launch that no tile can have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(x + offsets, 0.0)


kernel[(1,)](X, BLOCK=1000)

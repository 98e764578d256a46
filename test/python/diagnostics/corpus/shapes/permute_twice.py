"""A permutation that names a dimension twice."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 8)[:, None] * 8 + kl.arange(0, 8)[None, :]
    kl.store(x + offsets, kl.permute(kl.load(x + offsets), (0, 0)))


kernel[(1,)](X)

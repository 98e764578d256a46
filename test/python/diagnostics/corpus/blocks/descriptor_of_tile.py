"""A descriptor of a tile of pointers."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    desc = kl.make_tensor_descriptor(x + kl.arange(0, 8), (8, 8), (8, 1), (4, 4))
    desc.store([0, 0], kl.zeros((4, 4), kl.float32))


kernel[(1,)](X)

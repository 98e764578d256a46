"""A method of a descriptor with too few arguments."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    desc = kl.make_tensor_descriptor(x, (8, 8), (8, 1), (1, 8))
    kl.store(x, kl.sum(desc.gather(kl.arange(0, 4))))


kernel[(1,)](X)

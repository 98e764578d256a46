"""device_print without a string."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.device_print(kl.load(x))
    kl.store(x, 1.0)


kernel[(1,)](X)

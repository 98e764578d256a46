"""An array at an odd address."""

import numpy as np

import kiln
import kiln.language as kl


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


kernel[(1,)](np.frombuffer(bytearray(65), np.float32, 8, offset=1))

"""An array in another byte order."""

import numpy as np

import kiln
import kiln.language as kl


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


kernel[(1,)](np.zeros(64, ">f4"))

"""An atomic on a type that has none."""

import numpy as np

import kiln
import kiln.language as kl


@kiln.jit
def kernel(b):
    kl.atomic_add(b, 1)


kernel[(1,)](np.zeros(64, np.int8))

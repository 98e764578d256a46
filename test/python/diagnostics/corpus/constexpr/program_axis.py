"""The axis of program_id known only at run time."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, kl.program_id(n))


kernel[(1,)](X, 7)

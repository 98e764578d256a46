"""More unrolled iterations than any memory holds."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    for i in kl.range(0, n, loop_unroll_factor=10**9):
        kl.store(x + i, 0.0)


kernel[(1,)](X, 7)

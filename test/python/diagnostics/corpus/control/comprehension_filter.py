"""A comprehension filtered by a run-time condition."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    parts = [i for i in kl.static_range(4) if i < n]
    kl.store(x, len(parts))


kernel[(1,)](X, 7)

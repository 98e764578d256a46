"""& on float tiles where a comparison was forgotten."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    offsets = kl.arange(0, 64)
    values = kl.load(x + offsets)
    kl.store(x + offsets, kl.where(values & (values > 1.0), 0.0, values))


kernel[(1,)](X)

"""A target that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


with kiln.knobs.scope(target="cpu-avx3"):
    kernel[(1,)](X)

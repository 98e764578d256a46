"""A bit cast that changes the width."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.load(x).to(kl.int16, bitcast=True))


kernel[(1,)](X)

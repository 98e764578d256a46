"""A lambda becomes a kernel."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


kernel = kiln.jit(lambda x: kl.store(x, 1.0))

kernel[(1,)](X)

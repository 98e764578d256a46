"""A rounding mode that does not exist."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, h):
    kl.store(h, kl.load(x).to(kl.float16, fp_downcast_rounding="up"))


kernel[(1,)](X, np.zeros(64, np.float16))

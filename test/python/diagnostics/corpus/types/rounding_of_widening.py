"""A rounding mode where nothing rounds."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, h):
    kl.store(x, kl.load(h).to(kl.float32, fp_downcast_rounding="rtz"))


kernel[(1,)](X, np.zeros(64, np.float16))

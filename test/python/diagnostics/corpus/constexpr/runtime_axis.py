"""An axis known only at run time."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, axis):
    kl.store(x, kl.sum(kl.load(x + kl.arange(0, 64)), axis=axis))


kernel[(1,)](X, 7)

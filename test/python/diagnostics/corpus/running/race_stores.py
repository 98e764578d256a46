"""KILN_CHECK=races: two instances store to one address."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    kl.store(x, kl.program_id(0))


with kiln.knobs.scope(check="races"):
    kernel[(2,)](X)

"""KILN_CHECK=bounds: an atomic past the end."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.atomic_add(i + kl.arange(0, 128), 1)


with kiln.knobs.scope(check="bounds"):
    kernel[(1,)](I)

"""A libdevice function of integers."""

import numpy as np

import kiln
import kiln.language as kl
from kiln.language.extra import libdevice

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.store(i, libdevice.tanh(kl.load(i)))


kernel[(1,)](I)

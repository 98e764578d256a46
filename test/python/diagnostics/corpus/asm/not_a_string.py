"""The assembly is not a string."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    kl.store(i, kl.inline_asm_elementwise(7, "=r,r", [kl.load(i)], kl.int32, True, 1))


kernel[(1,)](I)

"""A portable body that returns the wrong number of values."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def body(a):
    return a, a


@kiln.jit
def kernel(i):
    kl.store(i, kl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [kl.load(i)], kl.int32, True, 1, portable=body))


kernel[(1,)](I)

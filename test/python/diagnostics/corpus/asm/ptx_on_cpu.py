"""PTX assembly without a portable body, compiled for the CPU."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    offsets = kl.arange(0, 64)
    tile = kl.load(i + offsets)
    kl.store(i + offsets, kl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $1, 3;", "=r,r", [tile], kl.int32, True, 1))


kernel[(1,)](I)

"""More operands than constraints."""

import numpy as np

import kiln
import kiln.language as kl

I = np.zeros(64, np.int32)


@kiln.jit
def kernel(i):
    offsets = kl.arange(0, 64)
    tile = kl.load(i + offsets)
    kl.store(i + offsets, kl.inline_asm_elementwise("add.s32 $0, $1, $2;", "=r,r", [tile, tile], kl.int32, True, 1))


kernel[(1,)](I)

"""static_assert of a false condition, with an f-string as message."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK: kl.constexpr):
    kl.static_assert(BLOCK % 128 == 0, f"BLOCK must be a multiple of 128, not {BLOCK}")
    kl.store(x + kl.arange(0, BLOCK), 0.0)


kernel[(1,)](X, BLOCK=64)

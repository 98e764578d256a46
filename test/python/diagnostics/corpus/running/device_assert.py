"""A device assertion that fails for one element."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.device_assert(offsets < n, "offset past the end")
    kl.store(x + offsets, 0.0, mask=offsets < n)


kernel[(2,)](X, 60, BLOCK=32)

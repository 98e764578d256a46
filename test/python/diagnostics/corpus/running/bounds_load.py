"""KILN_CHECK=bounds: a load past the end."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
Y = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, y, BLOCK: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + offsets, kl.load(x + offsets), mask=offsets < 60)


with kiln.knobs.scope(check="bounds"):
    kernel[(2,)](X[:60].copy(), Y, BLOCK=32)

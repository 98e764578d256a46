"""KILN_CHECK=races: one instance reads what another one writes."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, BLOCK: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(x + offsets, kl.load(x + offsets + 1, mask=offsets < 63))


with kiln.knobs.scope(check="races"):
    kernel[(2,)](X, BLOCK=32)

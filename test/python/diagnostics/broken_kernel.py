"""A valid kernel, for the test that breaks the compiler under it."""

import kiln
import kiln.language as kl


@kiln.jit
def scale(x, n, BLOCK: kl.constexpr, TYPE: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + offsets, mask=offsets < n)
    kl.store(x + offsets, kl.flip(value.to(TYPE)), mask=offsets < n)

"""Configurations given as dictionaries."""

import kiln
import kiln.language as kl


@kiln.autotune(configs=[{"BLOCK": 32}, {"BLOCK": 64}], key=["n"])
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)

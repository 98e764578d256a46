"""A key that is not a parameter."""

import kiln
import kiln.language as kl


@kiln.autotune(configs=[kiln.Config({"BLOCK": 32}), kiln.Config({"BLOCK": 64})], key=["m"])
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)

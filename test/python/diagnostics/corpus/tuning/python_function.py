"""autotune without jit."""

import kiln
import kiln.language as kl


@kiln.autotune(configs=[kiln.Config({"BLOCK": 32})], key=["n"])
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)

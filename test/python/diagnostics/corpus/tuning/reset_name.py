"""An array to reset that is not a parameter."""

import kiln
import kiln.language as kl


@kiln.autotune(configs=[kiln.Config({"BLOCK": 32})], key=["n"], reset_to_zero=["out"])
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)

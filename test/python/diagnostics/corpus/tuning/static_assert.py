"""Every configuration fails its static_assert."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.autotune(configs=[kiln.Config({"BLOCK": 32}), kiln.Config({"BLOCK": 64})], key=["n"])
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.static_assert(BLOCK > 64, "BLOCK too small")
    kl.store(x + kl.arange(0, BLOCK), n)


kernel[(1,)](X, 7)

"""A configuration sets a parameter the kernel does not have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.autotune(configs=[kiln.Config({"BLOK": 32})], key=["n"])
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)


kernel[(1,)](X, 7)

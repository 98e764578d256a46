"""A grid function that asks for a meta-parameter the kernel does not have."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)


kernel[lambda meta: (kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),)](X, 7, BLOCK=64)

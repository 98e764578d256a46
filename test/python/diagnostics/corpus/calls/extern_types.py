"""A library function for other types."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)

COSINE = kl.constexpr({(kl.float64,): ("cos", kl.float64)})


@kiln.jit
def kernel(x):
    kl.store(x, kl.extern_elementwise("libdevice", "", [kl.load(x)], COSINE, is_pure=True))


kernel[(1,)](X)

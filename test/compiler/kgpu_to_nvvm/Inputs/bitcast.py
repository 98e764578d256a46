"""Kernels that reinterpret a 16-bit float as the other 16-bit type and compare it with zero."""

import kiln
import kiln.language as kl


@kiln.jit
def halves(x, out):
    at = kl.arange(0, 128)
    value = kl.load(x + at)
    kl.store(out + at, (value + value).to(kl.bfloat16, bitcast=True) != 0.0)


@kiln.jit
def brains(x, out):
    at = kl.arange(0, 128)
    value = kl.load(x + at)
    kl.store(out + at, (value + value).to(kl.float16, bitcast=True) != 0.0)

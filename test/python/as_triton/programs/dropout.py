"""Random numbers that depend only on seed and position."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, keep, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    r = tl.rand(seed, i)
    tl.store(keep + i, r, mask=i < n)
    tl.store(out + i, tl.where(r > p, v / (1 - p), 0.0), mask=i < n)


x = np.random.randn(1000).astype(np.float32)
out, keep, again = np.empty_like(x), np.empty_like(x), np.empty_like(x)
kernel[(4,)](x, out, keep, 1000, 0.5, 123, BLOCK=256)
kernel[(8,)](x, again, keep, 1000, 0.5, 123, BLOCK=128)
assert (out == np.where(keep > 0.5, x / np.float32(0.5), 0)).all() and (out == again).all()
assert 400 < (out != 0).sum() < 600

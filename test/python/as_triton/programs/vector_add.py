"""Adds two vectors, as the first kernel of every user does."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


x, y = np.random.rand(98432).astype(np.float32), np.random.rand(98432).astype(np.float32)
out = np.empty_like(x)
add_kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK_SIZE"]),)](x, y, out, x.size, BLOCK_SIZE=1024)
assert (out == x + y).all()

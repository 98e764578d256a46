"""Kernels for the tests of frozen mode."""

from typing import Any, NamedTuple

import kiln
import kiln.language as kl


@kiln.jit
def scale(x, y, n, factor, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + at, (kl.load(x + at, mask=at < n) * factor).to(y.dtype.element_ty), mask=at < n)


@kiln.jit
def product(a, c, m, stride):
    """c = a aᵀ for 64 columns; on a GPU, pointers become descriptors where counts are bounded."""
    i = kl.program_id(0) * 64 + kl.arange(0, 64)
    total = kl.zeros((64, 64), kl.float32)
    for at in range(0, 64, 32):
        d = at + kl.arange(0, 32)
        x = kl.load(a + i[:, None] * stride + d[None, :], mask=i[:, None] < m, other=0.0)
        total = kl.dot(x, x.T, total)
    kl.store(c + i[:, None] * 64 + kl.arange(0, 64)[None, :], total, mask=i[:, None] < m)


class Rows(NamedTuple):
    data: Any
    stride: Any


@kiln.jit
def add_rows(a: Rows, out: Rows, bias, WIDTH: kl.constexpr):
    """out = a + bias, row by row. Without a stride rows are contiguous; bias may be None."""
    row = kl.program_id(0)
    at = kl.arange(0, WIDTH)
    a_stride = WIDTH if a.stride is None else a.stride
    value = kl.load(a.data + row * a_stride + at)
    if bias is not None:
        value += kl.load(bias + at)
    kl.store(out.data + row * out.stride + at, value)


@kiln.jit(do_not_specialize=["n"])
def general(x, n, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    kl.store(x + at, kl.load(x + at, mask=at < n) + n, mask=at < n)

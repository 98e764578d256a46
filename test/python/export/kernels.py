"""Kernels for the tests of `kiln export`."""

from typing import Any, NamedTuple

import kiln
import kiln.language as kl


@kiln.jit
def scale(x, y, n, factor, BLOCK: kl.constexpr):
    """y = x * factor, in y's type.

    One program a block of BLOCK elements.
    """
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + at, (kl.load(x + at, mask=at < n) * factor).to(y.dtype.element_ty), mask=at < n)


class Row(NamedTuple):
    """A row of numbers; contiguous if there is no step."""

    data: Any
    count: Any
    step: Any


@kiln.jit
def everything(row: Row, out: Row, blocks, template, add, half: kl.float16, wide: kl.uint64, BLOCK: kl.constexpr,
               MODE: kl.constexpr, SCALE: kl.constexpr, TYPE: kl.constexpr):  # fmt: skip
    """Every kind of argument; `template` is a C++ keyword, and an array or None."""
    at = kl.arange(0, BLOCK)
    step = 1 if row.step is None else row.step
    value = kl.load(row.data + at * step, mask=at < row.count).to(kl.float32)
    value = value * SCALE + kl.sum(blocks.load([0, 0]).to(kl.float32))
    if add:
        value += half.to(kl.float32)
    if template is not None:
        value += kl.load(template + at, mask=at < row.count)
    if MODE == "negate":
        value = -value
    value += (wide >> 60).to(kl.float32)
    kl.store(out.data + at, value.to(TYPE), mask=at < out.count)


@kiln.jit
def special(x, y, n, BLOCK: kl.constexpr):
    """Calls what no short C++ expression can do: a CUDA library function, which the runtime implements for the CPU."""
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + at, kl.extra.libdevice.erfinv(kl.load(x + at, mask=at < n, other=0.0)), mask=at < n)


@kiln.jit
def checked(x, n, BLOCK: kl.constexpr):
    """Uses device_print and device_assert."""
    at = kl.arange(0, BLOCK)
    value = kl.load(x + at, mask=at < n, other=0.0)
    kl.device_print("sum", kl.sum(value))
    kl.device_assert(n > 0, "n is positive")


@kiln.jit
def copy_blocks(source, to, BLOCK: kl.constexpr):
    """Copies through tensor maps on targets that have them."""
    row = kl.program_id(0) * BLOCK
    to.store([row, 0], source.load([row, 0]))


def plain(x):
    return x

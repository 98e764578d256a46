"""Sum of all elements (two launches in a fixed order, so the bits are always the same) and top-k of rows."""

from __future__ import annotations

import math
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.machine import Machine, machine_of, options
from kiln.kernels.operator import (
    FLOATS,
    SIGNED,
    UNSIGNED,
    Spec,
    Types,
    check_apart,
    check_contiguous,
    empty,
    operator,
    output,
    type_name,
)
from kiln.kernels.views import Rows, Tile, rows_view

BLOCK = 4096
# Most programs of the first launch. The number fixes the order of additions, so it depends only on the kind of machine
# and the length.
CPU_PROGRAMS, GPU_PROGRAMS = 256, 1024


@kiln.jit
def sum_partial_kernel(x, partial, n, blocks, BLOCK: kl.constexpr):
    """Program p adds blocks p, p + programs, … and stores one sum, in the type of ``partial``."""
    program = kl.program_id(0)
    kind: kl.constexpr = partial.dtype.element_ty
    total = kl.zeros((BLOCK,), kind)
    for block in range(program, blocks, kl.num_programs(0)):
        at = block.to(kl.int64) * BLOCK + kl.arange(0, BLOCK)
        total += kl.load(x + at, mask=at < n, other=0).to(kind)
    kl.store(partial + program, kl.sum(total, axis=0))


@kiln.jit
def sum_final_kernel(partial, y, programs, BLOCK: kl.constexpr):
    """Adds the sums that the programs stored."""
    at = kl.arange(0, BLOCK)
    total = kl.sum(kl.load(partial + at, mask=at < programs, other=0), axis=0)
    kl.store(y, total.to(y.dtype.element_ty))


@kiln.jit
def _order_of(value):
    """An int32 in the same order as the values. NaN is above all other floats, and both zeros are equal."""
    if value.dtype.is_int():
        return value.to(kl.int32)
    value = value.to(kl.float32)
    bits = (value + 0.0).to(kl.int32, bitcast=True)
    order = kl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return kl.where(value != value, 0x7FFFFFFF, order)


@kiln.jit
def topk_kernel(x: Rows, values: Rows, indices: Rows, k, BLOCK: kl.constexpr, K: kl.constexpr):
    """The k largest of one row and their indices, by sorting value and index as one number."""
    row, n = x.row(kl.program_id(0)), x.columns
    column = kl.arange(0, BLOCK)
    value = kl.load(row.data + column * x.step, mask=column < n, other=0)
    # One 64-bit key: the value in the upper half, the complemented index in the lower, so that the first of equals
    # wins.
    key = (_order_of(value).to(kl.int64) << 32) | (0x7FFFFFFF - column).to(kl.int64)
    key = kl.where(column < n, key, -0x7FFFFFFFFFFFFFFF)
    best = kl.topk(key, K)
    index = 0x7FFFFFFF - (best & 0x7FFFFFFF).to(kl.int32)
    place = kl.arange(0, K)
    mask = place < k
    found = Tile(kl.program_id(0), place, mask, mask)
    values.store(found, kl.load(row.data + index * x.step, mask=mask))
    indices.store(found, index.to(kl.int64))


# The type in which each type is summed: integers wrap around if their sum exceeds 64 bits.
_SUMS = {
    **dict.fromkeys(FLOATS, "float32"),
    "float64": "float64",
    **dict.fromkeys(("bool", *SIGNED, *UNSIGNED[:3]), "int64"),
    "uint64": "uint64",
}


def _sum_spec(x: Any, **_: Any) -> tuple[Spec]:
    kind = _SUMS[type_name(x.dtype)]
    return (Spec((), x.dtype if kind == "float32" else kind),)


@operator(
    outputs=_sum_spec,
    arrays={"x": "(…)", "out": "()"},
    types=(
        Types(x=FLOATS, out=FLOATS, inside="float32", result="x"),
        Types(x=("float64",), out="x", inside="float64", result="x"),
        Types(x=("bool", *SIGNED, *UNSIGNED[:3]), out=("int64",), inside="int64", result="int64"),
        Types(x=("uint64",), out="x", inside="uint64", result="x"),
    ),
)
def sum_all(x: Any, *, out: Any = None) -> Any:
    """The sum of a contiguous array, as a zero-dimensional array.

    Floats are summed in float32 and the sum is rounded once; float64, integers and truth values in the types below. The
    order of additions is fixed, so the result always has the same bits."""
    check_contiguous(x=x)
    out = output(out, _sum_spec(x)[0], x)
    n = math.prod(x.shape)
    blocks = kiln.cdiv(n, BLOCK)
    machine = machine_of(x)
    most = GPU_PROGRAMS if machine.gpu else CPU_PROGRAMS
    programs = max(1, min(most, blocks))
    partial = empty(Spec((programs,), _SUMS[type_name(x.dtype)]), x)
    sum_partial_kernel[(programs,)](x, partial, n, blocks, BLOCK=BLOCK, **options())
    sum_final_kernel[(1,)](partial, out, programs, BLOCK=most, **options())
    return out


def _topk_options(machine: Machine, side: int) -> dict[str, Any]:
    """Warps for a row of ``side`` 64-bit keys: at most 16 keys, which are 32 registers, per thread."""
    return options(num_warps=max(1, min(32, side // 512))) if machine.gpu else options()


def _topk_specs(x: Any, k: int, **_: Any) -> tuple[Spec, Spec]:
    shape = (*x.shape[:-1], k)
    return Spec(shape, x.dtype), Spec(shape, "int64")


# 64-bit integers and float64 do not fit into a 64-bit key together with an index.
_SORTED = (*FLOATS, *SIGNED[:3], *UNSIGNED[:2])


@operator(
    outputs=_topk_specs,
    arrays={"x": "(…, n)", "out[0]": "(…, k)", "out[1]": "(…, k)"},
    types=(Types(x=_SORTED, **{"out[0]": "x", "out[1]": ("int64",)}, inside="the type of x", result="x, int64"),),
)
def topk(x: Any, k: int, *, out: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """The ``k`` largest of each row, largest first, and their int64 indices.

    NaN is largest; of equal elements, as both zeros are, the first comes first.
    """
    n = x.shape[-1]
    if n == 0:
        raise ArgumentError("x", f"expected rows of at least one element, got shape {tuple(x.shape)}")
    if not 0 < k <= n:
        raise ArgumentError("k", f"expected a number from 1 to {n} (the length of a row), got {k}")
    specs = _topk_specs(x, k)
    given = out or (None, None)
    values = output(given[0], specs[0], x, "out[0]", {"x": x})
    indices = output(given[1], specs[1], x, "out[1]", {"x": x})
    if given[0] is not None and given[1] is not None:
        check_apart("out[1]", indices, "out[0]", values)
    of_x = rows_view(x)
    side = kiln.next_power_of_2(max(n, 16))
    topk_kernel[(of_x.rows,)](
        of_x,
        rows_view(values, "out[0]"),
        rows_view(indices, "out[1]"),
        k,
        BLOCK=side,
        K=min(kiln.next_power_of_2(k), side),
        **_topk_options(machine_of(x), side),
    )
    return values, indices

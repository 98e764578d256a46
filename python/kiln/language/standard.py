"""Library functions built from the other ones: reductions, running sums, softmax, index arithmetic.

They are plain Python over tensors, traced into the calling kernel: the ops they emit carry the caller's source
position, and compiling a kernel parses no source of the library.
"""

from __future__ import annotations

from typing import Any

from . import values
from .builtin import builtin
from .helpers import *  # noqa: F403
from .semantic import arithmetic, combine, elementwise
from .semantic.build import error
from .semantic.cast import cast, scalar_type, widened_float
from .semantic.operand import describe, to_tensor
from .shapes import bitonic_merge as bitonic_merge
from .shapes import flip as flip
from .shapes import interleave as interleave
from .shapes import ravel as ravel
from .shapes import sort as sort
from .shapes import squeeze as squeeze
from .shapes import topk as topk
from .shapes import unsqueeze as unsqueeze
from .shapes import zeros as zeros
from .shapes import zeros_like as zeros_like
from .types import float32
from .values import constexpr, tensor, unwrap


@builtin
def cdiv(x: Any, div: Any) -> Any:
    """Quotient of non-negative integers, rounded up. Of constexprs, a constexpr.

    >>> blocks = kl.cdiv(n, BLOCK)
    """
    x, div = unwrap(x), unwrap(div)
    if not isinstance(x, tensor) and not isinstance(div, tensor):
        for value in (x, div):
            if isinstance(value, bool) or not isinstance(value, int):
                raise error(f"expected integers in kl.cdiv, got {describe(value)}")
        if div == 0:
            raise error("expected a divisor other than 0 in kl.cdiv, got 0")
        return constexpr(values.FOLD["//"](x + div - 1, div))
    return arithmetic.binary("//", arithmetic.binary("+", x, arithmetic.binary("-", div, 1)), div)


@builtin
def sigmoid(x: Any) -> tensor:
    """1 / (1 + e^-x). fp32, fp64.

    >>> silu = x * kl.sigmoid(x)
    """
    x = to_tensor(x)
    elementwise.wide_float(x, "kl.sigmoid")
    # exp(-|x|) cannot overflow. 1 / (1 + exp(-x)) would, and lose the subnormal results.
    small = elementwise.math_op("exp", "kl.sigmoid", -elementwise.absolute(x))
    return arithmetic.where(x >= 0, 1.0, small) / (1 + small)


@builtin
def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> tensor:
    """e^x divided by its sum along a dimension (by default the first), shifted so that nothing overflows.

    fp32, fp64. The result has the shape of `x`; `keep_dims` has no effect.

    >>> p = kl.softmax(scores, 1)
    """
    x = elementwise.wide_float(to_tensor(x), "kl.softmax")
    axis = 0 if unwrap(dim) is None else dim
    largest = combine.extremum_reduce("max", x, axis, False, True, True)
    numerator = elementwise.math_op("exp", "kl.softmax", x - largest)
    total = combine.reduce(numerator, axis, combine.add, True, "kl.softmax")
    return arithmetic.divide_float(numerator, total)


@builtin
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> values.tuple:
    """Renumbers the blocks of a size_i x size_j grid so that they are visited in groups of `size_g` rows, column by
    column; returns the new row and column.

    Neighbouring programs then share rows and columns, which keeps these in cache.

    >>> m, n = kl.swizzle2d(pid // grid_n, pid % grid_n, grid_m, grid_n, 8)
    """
    place = _times(i, size_j) + to_tensor(j)
    per_group = arithmetic.binary("*", size_g, size_j)
    first = arithmetic.binary("*", arithmetic.binary("//", place, per_group), size_g)
    height = arithmetic.extremum("min", arithmetic.binary("-", size_i, first), size_g)
    inside = arithmetic.binary("%", place, per_group)
    row = arithmetic.binary("+", first, arithmetic.binary("%", inside, height))
    return values.tuple([row, arithmetic.binary("//", inside, height)])


def _times(a: Any, b: Any) -> tensor:
    return to_tensor(arithmetic.binary("*", a, b))


@builtin
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> tensor:
    """Sum along an axis; of all elements, if the axis is None.

    Integers narrower than 32 bits are summed in 32 bits, and so is the result. fp16, bf16 and fp8 are summed in fp32
    and rounded once. With `dtype`, elements are converted to that type first, and the result has it.

    >>> mean = kl.sum(x, 0) / n
    """
    x = to_tensor(input, "a tile in kl.sum")
    if unwrap(dtype) is not None:
        return combine.reduce(cast(x, scalar_type(dtype)), axis, combine.add, keep_dims, "kl.sum")
    return _accumulated(x, lambda t: combine.reduce(t, axis, combine.add, keep_dims, "kl.sum"))


def _accumulated(x: tensor, function: Any) -> tensor:
    """A sum or product computed in a wide enough type; narrow floats are converted back to their own."""
    element = x.type.scalar
    if element.is_ptr():
        return function(x)
    if element.is_floating():
        if element.primitive_bitwidth < 32:
            return cast(function(cast(x, float32)), element)
        return function(x)
    wide = combine.sum_type(element)
    return function(x if wide is None else cast(x, wide))


@builtin
def max(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """Maximum along an axis; of all elements, if the axis is None. Narrow types give fp32 or int32.

    `return_indices` gives (maximum, its index), the maximum in the input's own type (bf16 as fp32); among equals the
    first, unless `return_indices_tie_break_left` is False.

    >>> best, where = kl.max(x, 0, return_indices=True)
    """
    return combine.extremum_reduce("max", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


@builtin
def min(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """Minimum along an axis; otherwise as `kl.max`.

    >>> least = kl.min(x, 0)
    """
    return combine.extremum_reduce("min", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


@builtin
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:
    """Index of the maximum along an axis, int32; among equals the first, unless `tie_break_left` is False.

    >>> where = kl.argmax(x, 0)
    """
    return combine.extremum_reduce("max", input, axis, True, tie_break_left, keep_dims)[1]


@builtin
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:
    """Index of the minimum along an axis, int32; otherwise as `kl.argmax`.

    >>> where = kl.argmin(x, 0)
    """
    return combine.extremum_reduce("min", input, axis, True, tie_break_left, keep_dims)[1]


@builtin
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> tensor:
    """Exclusive or of integers along an axis; of all elements, if the axis is None.

    >>> parity = kl.xor_sum(bits, 0)
    """
    value = combine.integer_only(input, "kl.xor_sum")
    return combine.reduce(value, axis, combine.exclusive_or, keep_dims, "kl.xor_sum")


@builtin
def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> tensor:
    """Inclusive or of integers along an axis; of all elements, if the axis is None.

    >>> any_set = kl.reduce_or(flags, 0)
    """
    value = combine.integer_only(input, "kl.reduce_or")
    return combine.reduce(value, axis, combine.inclusive_or, keep_dims, "kl.reduce_or")


@builtin
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> tensor:
    """Running sum along an axis; from the end, if reversed.

    Integers narrower than 32 bits are summed in 32 bits, bf16 in fp32; the result has that type.

    >>> positions = kl.cumsum(flags, 0) - 1
    """
    x = widened_float(to_tensor(input, "a tile in kl.cumsum"))
    wide = scalar_type(dtype) if unwrap(dtype) is not None else combine.sum_type(x.type.scalar)
    return combine.scan(x if wide is None else cast(x, wide), axis, combine.add, reverse, "kl.cumsum")


@builtin
def cumprod(input: Any, axis: Any = 0, reverse: Any = False) -> tensor:
    """Running product along an axis; from the end, if reversed. bf16 is multiplied in fp32.

    >>> decay = kl.cumprod(gates, 0)
    """
    x = widened_float(to_tensor(input, "a tile in kl.cumprod"))
    return combine.scan(x, axis, combine.multiply, reverse, "kl.cumprod")

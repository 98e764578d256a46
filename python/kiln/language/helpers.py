"""Private helpers of Triton's `tl.standard` that ported programs import, under Triton's names."""

from __future__ import annotations

from typing import Any

from .builtin import builtin
from .semantic import combine
from .semantic.build import error
from .semantic.cast import scalar_type
from .semantic.operand import describe
from .values import constexpr, unwrap


def _integer(value: Any, what: str) -> int:
    value = unwrap(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise error(f"expected a positive integer known at compile time in {what}, got {describe(value)}", value=value)
    return value


@builtin
def _log2(i: Any) -> constexpr:
    """The binary logarithm of a number, rounded down."""
    return constexpr(_integer(i, "_log2").bit_length() - 1)


@builtin
def _is_power_of_two(i: Any) -> constexpr:
    return constexpr(_integer(i, "_is_power_of_two").bit_count() == 1)


@builtin
def _sum_combine(a: Any, b: Any) -> Any:
    return combine.add(a, b)


@builtin
def _prod_combine(a: Any, b: Any) -> Any:
    return combine.multiply(a, b)


@builtin
def _xor_combine(a: Any, b: Any) -> Any:
    return combine.exclusive_or(a, b)


@builtin
def _or_combine(x: Any, y: Any) -> Any:
    return combine.inclusive_or(x, y)


@builtin
def _elementwise_max(a: Any, b: Any) -> Any:
    return combine.maximum(a, b)


@builtin
def _elementwise_min(a: Any, b: Any) -> Any:
    return combine.minimum(a, b)


@builtin
def _argmax_combine(value1: Any, index1: Any, value2: Any, index2: Any, tie_break_left: Any) -> Any:
    return combine.ARG[">", bool(unwrap(tie_break_left))](value1, index1, value2, index2)


@builtin
def _argmax_combine_tie_break_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return combine.ARG[">", True](value1, index1, value2, index2)


@builtin
def _argmax_combine_tie_break_fast(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return combine.ARG[">", False](value1, index1, value2, index2)


@builtin
def _argmin_combine(value1: Any, index1: Any, value2: Any, index2: Any, tie_break_left: Any) -> Any:
    return combine.ARG["<", bool(unwrap(tie_break_left))](value1, index1, value2, index2)


@builtin
def _argmin_combine_tie_break_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return combine.ARG["<", True](value1, index1, value2, index2)


@builtin
def _argmin_combine_tie_break_fast(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return combine.ARG["<", False](value1, index1, value2, index2)


@builtin
def _pick_sum_dtype(in_dtype: Any, dtype: Any) -> Any:
    """The accumulation type of a sum: the one requested, else at least 32 bits for integers; None for the own type."""
    return scalar_type(dtype) if unwrap(dtype) is not None else combine.sum_type(scalar_type(in_dtype))


@builtin
def _get_flip_dim(dim: Any, shape: Any) -> constexpr:
    """A dimension, counted from the front; the last one by default."""
    dim = unwrap(dim)
    rank = len(unwrap(shape))
    return constexpr(rank - 1 if dim is None else dim + rank if dim < 0 else dim)


__all__ = [name for name, value in list(globals().items()) if getattr(value, "__kiln_builtin__", False) is True]

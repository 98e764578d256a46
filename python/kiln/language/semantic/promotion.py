"""The common type of two operands; converting them to it and to one shape.

A Python number or constexpr is *weak*: if its kind (bool < int < float) is not above the other operand's, it adopts
that operand's type. Otherwise the rules are, in order: fp64, fp32, fp16, bf16 (with bf16 alone); two different fp8
types become fp16; integers follow C's usual conversions. Division and remainder of 16-bit floats happen in fp32.
"""

from __future__ import annotations

from typing import Any

from ..types import as_const, block_type, float16, float32, type_
from ..types import bfloat16 as bf16
from ..types import float64 as fp64
from ..values import is_number, tensor, unwrap
from .build import check_calculates, constant, emit, error, i32, splat
from .cast import cast
from .operand import number_type, to_tensor


def integer_promotion(a: Any, b: Any) -> Any:
    """C's usual conversions: the wider type; of equal width the unsigned one."""
    if a.int_signedness == b.int_signedness:
        return a if a.int_bitwidth > b.int_bitwidth else b
    unsigned, signed = (a, b) if a.is_int_unsigned() else (b, a)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def common_type(a: Any, a_weak: bool, b: Any, b_weak: bool, division: bool = False) -> Any:
    """The common type of two scalar types. Weak ones come from Python numbers."""
    check_calculates(a, b)
    if a_weak != b_weak:
        weak, strong = (a, b) if a_weak else (b, a)
        if weak.kind().value <= strong.kind().value:
            narrow = strong in (float16, bf16) or strong.is_fp8()
            return float32 if division and narrow else strong
        if strong.is_fp8():
            return strong
    if a.is_fp64() or b.is_fp64():
        return fp64
    if a.is_fp32() or b.is_fp32():
        return float32
    if a.is_fp16() or b.is_fp16():
        return float32 if division else float16
    if a.is_bf16() and b.is_bf16():
        return float32 if division else bf16
    if a.is_bf16() or b.is_bf16():
        return float32
    if a.is_fp8() and b.is_fp8():
        if division:
            return float32
        return a if a == b else float16
    if not (a.is_int() and b.is_int()):
        raise error(
            f"expected operands with a common type, got {a} and {b}", hint="convert one of them with .to(kl.float32)"
        )
    if division and a.int_signedness != b.int_signedness:
        raise error(
            "expected operands of one signedness (because a quotient of mixed signs is rarely what is meant),"
            f" got {a} and {b}",
            hint=f"convert one of them, as in .to(kl.{b})",
        )
    return integer_promotion(a, b)


def check_pointer(a: Any, b: Any, allowed: bool, op: str) -> None:
    if not a.is_ptr():
        return
    if not allowed:
        raise error(
            f"expected numbers as operands of {op}, got {a} and {b}",
            hint="load from the pointer with kl.load, or take its address with .to(kl.int64)",
        )
    if b.is_ptr() and as_const(a) != as_const(b):
        raise error(f"expected pointers of one type as operands of {op}, got {a} and {b}")
    if b.is_floating():
        raise error(
            f"expected an integer offset (because a pointer steps in whole elements), got {b}",
            hint="convert the offset with .to(kl.int32)",
        )


def promote(
    a: Any,
    b: Any,
    op: str,
    pointers: tuple[bool, bool] = (False, False),
    division: bool = False,
    arithmetic: bool = True,
    shape: bool = True,
) -> tuple[tensor, tensor]:
    """Converts both operands to tensors of one element type (except pointers) and one shape."""
    a, b = unwrap(a), unwrap(b)
    a_weak, b_weak = is_number(a), is_number(b)
    a_type = number_type(a) if a_weak else to_tensor(a, f"a number or a tensor as left operand of {op}").type
    b_type = number_type(b) if b_weak else to_tensor(b, f"a number or a tensor as right operand of {op}").type
    a_el, b_el = a_type.scalar, b_type.scalar
    check_pointer(a_el, b_el, pointers[0], op)
    check_pointer(b_el, a_el, pointers[1], op)
    if a_el.is_ptr() or b_el.is_ptr() or not arithmetic:
        lhs, rhs = to_tensor(a), to_tensor(b)
    else:
        target = common_type(a_el, a_weak, b_el, b_weak, division)
        lhs = weak_constant(a, target, b_type, op) if a_weak else cast(to_tensor(a), target)
        rhs = weak_constant(b, target, a_type, op) if b_weak else cast(to_tensor(b), target)
    return broadcast_pair(lhs, rhs, op) if shape else (lhs, rhs)


def weak_constant(value: Any, target: Any, other: type_, op: str) -> tensor:
    """A Python number as a constant of the type it adopts."""
    if target.is_int():
        if value < 0 and target.is_int_unsigned():
            raise error(
                f"expected a number {target} can hold as operand of {op} (because the other operand is unsigned),"
                f" got {value}",
                hint=f"convert the {other.scalar} operand with .to(kl.int64) first",
            )
        if not target.get_int_min_value() <= value <= target.get_int_max_value():
            raise error(
                f"expected a number {target} can hold as operand of {op} (because a plain number adopts the other"
                f" operand's type), got {value}",
                hint=f"convert the {other.scalar} operand to a wider type with .to(kl.int64)",
            )
    return constant(target, value)


def expand_front(value: tensor, rank: int) -> tensor:
    """Adds sides of 1 in front until the rank is reached."""
    while len(value.type.shape) < rank:
        value = emit(
            "tile.expand_dims", [value], block_type(value.type.scalar, (1, *value.type.shape)), {"axis": i32(0)}
        )
    return value


def broadcast_pair(a: tensor, b: tensor, op: str = "an operator") -> tuple[tensor, tensor]:
    """Broadcasts both to one shape: scalars, missing leading sides and sides of 1 are repeated."""
    a_shape, b_shape = a.type.shape, b.type.shape
    if a_shape == b_shape:
        return a, b
    if not a_shape:
        return splat(a, b_shape), b
    if not b_shape:
        return a, splat(b, a_shape)
    rank = max(len(a_shape), len(b_shape))
    lhs = (1,) * (rank - len(a_shape)) + tuple(a_shape)
    rhs = (1,) * (rank - len(b_shape)) + tuple(b_shape)
    result = []
    for dim, (x, y) in enumerate(zip(lhs, rhs, strict=False)):
        if x != y and x != 1 and y != 1:
            hint = None
            if len(a_shape) == len(b_shape) == 1:
                hint = "for all pairs, add an axis to each: x[:, None] and y[None, :]"
            raise error(
                f"expected operands of {op} that broadcast (because sides must be equal or 1), got {list(a_shape)} and"
                f" {list(b_shape)}, which differ in dimension {dim}: {x} and {y}",
                hint=hint,
            )
        result.append(max(x, y))
    return broadcast_exact(expand_front(a, rank), result), broadcast_exact(expand_front(b, rank), result)


def broadcast_exact(value: tensor, shape: Any) -> tensor:
    """Broadcasts `value` to `shape`, which its sides are known to fit."""
    shape = tuple(shape)
    if tuple(value.type.shape) == shape:
        return value
    if not value.type.shape:
        return splat(value, shape)
    return emit("tile.broadcast", [value], block_type(value.type.scalar, shape))

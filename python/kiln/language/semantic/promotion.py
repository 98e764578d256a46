"""The common type of two operands; converting them to it and to one shape.

A Python number or constexpr is *weak*: if its kind (bool < int < float) is not above the other operand's, it adopts
that operand's type. Otherwise the rules are, in order: fp64, fp32, fp16, bf16 (with bf16 alone); two different fp8
types become fp16; integers follow C's usual conversions. Division and remainder of 16-bit floats happen in fp32.
"""

from __future__ import annotations

from typing import Any

from ..types import (
    as_const,
    block_type,
    dtype,
    float16,
    float32,
    int1,
    int32,
    int64,
    pointer_type,
    type_,
    uint32,
    uint64,
)
from ..types import bfloat16 as bf16
from ..types import float64 as fp64
from ..values import constexpr, is_number, tensor, tensor_descriptor, unwrap
from ..values import tuple as Tuple
from .build import check_calculates, constant, emit, error, i32, splat


def number_type(value: Any) -> dtype:
    """The default type of a Python number: int32 where it fits; fp32 for floats, unless out of its range."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for ty in (int32, uint32, int64, uint64):
            if ty.get_int_min_value() <= value <= ty.get_int_max_value():
                return ty
        raise error(f"expected an integer of at most 64 bits, got {spell(value)}")
    magnitude = abs(value)
    in_range = 2.0**-126 <= magnitude <= (2 - 2.0**-23) * 2.0**127
    special = magnitude == 0 or magnitude == float("inf") or value != value
    return float32 if in_range or special else fp64


def spell(number: Any) -> str:
    """A number as text for error messages: Python refuses to print integers with thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 256:
        return f"one of {number.bit_length()} bits"
    return repr(number)


def describe(value: Any) -> str:
    """A description of a value for error messages."""
    value = unwrap(value)
    if isinstance(value, (tensor, tensor_descriptor)):
        return str(value.type)
    if isinstance(value, type_):
        return f"the type {value}"
    if is_number(value):
        return spell(value)
    if isinstance(value, str) or value is None:
        return repr(value)
    if isinstance(value, (Tuple, tuple, list)):
        cls = getattr(value, "cls", None)
        if cls is not None:
            return f"{cls.__name__}({', '.join(map(describe, value))})"
        return "(" + ", ".join(map(describe, value)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value) or hasattr(value, "__name__"):
        return f"the function {getattr(value, '__name__', value)}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def to_tensor(value: Any, what: str = "a number or a tensor") -> tensor:
    """Turns a kernel's value into a tensor; Python numbers become scalars."""
    value = unwrap(value)
    if isinstance(value, tensor):
        if isinstance(value.type, pointer_type) and value.type.element_ty.is_block():
            use = "move it with kl.advance, read and write through it with kl.load and kl.store"
            raise error(f"expected {what}, got a block pointer", use, value=value)
        return value
    if is_number(value):
        return constant(number_type(value), value)
    if hasattr(value, "__index__") and not isinstance(value, (constexpr, str)):  # numpy integers in constexprs
        return to_tensor(int(value))
    hint = "test it first, as in `if x is not None`" if value is None else None
    raise error(f"expected {what}, got {describe(value)}", hint, value=value)


def kernel_function(function: Any, what: str, takes: str) -> Any:
    """Checks for a function that kernels may call: a jit function, or one of the language or its library."""
    function = unwrap(function)
    known = any(hasattr(function, mark) for mark in ("__kiln_trace__", "__kiln_builtin__", "cache_key"))
    if not callable(function) or not known:
        name = getattr(function, "__name__", "")
        hint = f"decorate {name} with @kiln.jit" if callable(function) and name.isidentifier() else None
        raise error(
            f"expected {what}, got {describe(function)}",
            hint=hint or f"pass a function marked with @kiln.jit {takes}",
            value=function,
        )
    return function


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
    from .cast import cast

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

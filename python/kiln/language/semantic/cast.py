"""Conversions between element types: value conversions, bit casts, pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types import PropagateNan, bfloat16, dtype, float16, float32, float64, int1, int64, type_, uint8, uint16
from ..values import is_number, tensor, unwrap
from .build import check_calculates, constant, emit, error, shaped
from .operand import describe, to_tensor

# arith's numbering of rounding modes.
_ROUNDING = {"rtne": None, "rtz": "3 : i32"}

LARGEST_FP8 = {"fp8e4nv": 448.0, "fp8e5": 57344.0}

# Numpy's types have the same names.
_SPELLED = (
    "float16", "bfloat16", "float32", "float64", "float8e4nv", "float8e5",
    "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
_PYTHON = {"float": "float32", "int": "int32", "bool": "int1", "bool_": "int1"}


def scalar_type(value: Any, what: str = "a type such as kl.float32") -> Any:
    """Reads a dtype argument: a dtype, a constexpr of one, or its name."""
    value = unwrap(value)
    if isinstance(value, type_):
        return value.scalar
    if isinstance(value, str) and dtype.is_dtype(value):
        return dtype(value)
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    name = name if isinstance(value, str) else _PYTHON.get(name, name)
    hint = f"write kl.{name}" if name in _SPELLED else None
    raise error(f"expected {what}, got {describe(value)}", hint, value=value)


def bitcast(value: tensor, target: Any) -> tensor:
    """The same bits as another type of the same width."""
    target = target.scalar
    source = value.type.scalar
    if source == target:
        return value
    if source.is_ptr() or target.is_ptr():
        return cast(value, target)
    if source.primitive_bitwidth != target.primitive_bitwidth:
        raise error(
            f"expected a type of {source.primitive_bitwidth} bits (because bitcast keeps the bits), got {target} of"
            f" {target.primitive_bitwidth} bits"
        )
    ty = shaped(value, target)
    if source.mlir == target.mlir:
        return tensor(value.handle, ty)
    return emit("arith.bitcast", [value], ty)


def cast(value: Any, target: Any, fp_downcast_rounding: Any = None, bitcast_: bool = False) -> tensor:
    """`value` as another element type.

    Floats round to nearest even (or toward zero if asked, when narrowing), anything to bool is `!= 0`. A float becomes
    an integer by rounding towards zero; a value out of range becomes the nearest integer of the type and NaN becomes 0,
    on every target and for values known while compiling. fp8 saturates: values beyond its largest finite number,
    including infinity, become that number. fp8e4b15 is a storage format with values up to 1.75 and neither infinity nor
    NaN: both become 1.75, and ties round away from zero, as in Triton.
    """
    target = scalar_type(target)
    rounding = unwrap(fp_downcast_rounding)
    if is_number(unwrap(value)) and not bitcast_:
        if target.is_ptr():
            return cast(to_tensor(value), target)
        number = unwrap(value)
        return constant(target, truncated(number, target) if isinstance(number, float) else number)
    value = to_tensor(value)
    if unwrap(bitcast_):
        return bitcast(value, target)
    source = value.type.scalar
    check_rounding(source, target, rounding)
    if source == target:
        return value
    ty = shaped(value, target)
    if source.is_ptr() or target.is_ptr():
        return cast_pointer(value, source, target, ty)
    if target.is_void():
        raise error("expected a number type, got void")
    if source.is_fp8e4b15():
        return cast(from_e4b15(value), target)
    if target.is_fp8e4b15():
        return to_e4b15(value)
    if target.is_bool():
        from .arithmetic import compare

        return compare("!=", value, constant(source, 0))
    if source.is_floating() and target.is_floating():
        return cast_float(value, source, target, ty, _ROUNDING.get(rounding))
    if source.is_floating():
        return to_integer(value if source in (float32, float64) else cast(value, float32), target)
    if target.is_floating():
        if target.is_fp8():
            return cast(cast(value, float32), target)
        return emit("arith.sitofp" if source.is_int_signed() else "arith.uitofp", [value], ty)
    if source.int_bitwidth == target.int_bitwidth:
        return tensor(value.handle, ty)
    if source.int_bitwidth > target.int_bitwidth:
        return emit("arith.trunci", [value], ty)
    return emit("arith.extsi" if source.is_int_signed() else "arith.extui", [value], ty)


def check_rounding(source: Any, target: Any, rounding: Any) -> None:
    if rounding is None:
        return
    if rounding not in _ROUNDING:
        raise error(
            f"expected 'rtne' or 'rtz' as fp_downcast_rounding, got {describe(rounding)}",
            argument="fp_downcast_rounding",
        )
    if target.is_fp8e4b15() and source != target:
        raise error(
            "expected no fp_downcast_rounding to fp8e4b15 (because its halves round away from zero),"
            f" got {describe(rounding)}",
            argument="fp_downcast_rounding",
        )
    narrows = source.is_floating() and target.is_floating() and target.primitive_bitwidth < source.primitive_bitwidth
    # A rounding mode is harmless where the type stays the same: kernels for several types always give one.
    if not narrows and source != target:
        raise error(
            "expected fp_downcast_rounding only where a float narrows (because nothing else rounds),"
            f" got a conversion from {source} to {target}",
            argument="fp_downcast_rounding",
        )


def from_e4b15(value: tensor) -> tensor:
    """Converts fp8e4b15 to fp16, which has the same bias: the same bits, with an exponent that is one bit wider."""
    wide = shaped(value, uint16)
    code = emit("arith.extui", [bitcast(value, uint8)], wide)
    sign = emit("arith.shli", [emit("arith.andi", [code, constant(wide, 0x80)], wide), constant(wide, 8)], wide)
    rest = emit("arith.shli", [emit("arith.andi", [code, constant(wide, 0x7F)], wide), constant(wide, 7)], wide)
    return bitcast(emit("arith.ori", [sign, rest], wide), float16)


def to_e4b15(value: tensor) -> tensor:
    """Converts a number to fp8e4b15. A conversion to fp16 on the way rounds toward zero, so that ties stay visible."""
    source = value.type.scalar
    if source == float64:
        value = cast(value, float32, "rtz")
    elif source not in (float16, float32):
        value = cast(value, float32)
    if value.type.scalar == float32:
        value = cast(value, float16, "rtz")
    wide = shaped(value, uint16)
    bits = bitcast(value, uint16)
    size = emit("arith.minui", [emit("arith.andi", [bits, constant(wide, 0x7FFF)], wide), constant(wide, 0x3F00)], wide)
    size = emit("arith.shrui", [emit("arith.addi", [size, constant(wide, 0x40)], wide), constant(wide, 7)], wide)
    sign = emit("arith.shrui", [emit("arith.andi", [bits, constant(wide, 0x8000)], wide), constant(wide, 8)], wide)
    code = emit("arith.trunci", [emit("arith.ori", [sign, size], wide)], shaped(value, uint8))
    return tensor(code.handle, shaped(value, dtype("fp8e4b15")))


def cast_float(value: tensor, source: Any, target: Any, ty: type_, rounding: str | None) -> tensor:
    attrs = {} if rounding is None else {"roundingmode": rounding}
    if target.is_fp8():
        return emit("arith.truncf", [saturated(value, target)], ty, attrs)
    if source.primitive_bitwidth < target.primitive_bitwidth:
        return emit("arith.extf", [value], ty)
    if source.primitive_bitwidth > target.primitive_bitwidth:
        return emit("arith.truncf", [value], ty, attrs)
    # Between fp16 and bf16, convert through a type that holds both.
    return emit("arith.truncf", [cast(value, float32)], ty)


def saturated(value: tensor, target: Any) -> tensor:
    """`value` in fp32 or fp64, clamped to the range of an fp8 type; NaN stays NaN.

    At run time a truncation to fp8 saturates by itself. The explicit clamp is there for constant folding: without it,
    folding an infinite constant or a pair of conversions would still give infinity.
    """
    from .arithmetic import extremum

    largest = LARGEST_FP8.get(target.name)
    if largest is None:
        return value  # a type that no target has; `mlir` raises the error
    wide = value if value.type.scalar in (float32, float64) else cast(value, float32)
    above = extremum("max", wide, -largest, PropagateNan.ALL)
    return extremum("min", above, largest, PropagateNan.ALL)


def truncated(number: float, target: Any) -> int | float:
    """The value of a Python float converted to an integer type; for other types, the number unchanged."""
    if not target.is_int() or target.is_bool():
        return number
    if number != number:
        return 0
    low, high = target.get_int_min_value(), target.get_int_max_value()
    return int(number) if low < number < high else low if number <= low else high


def to_integer(value: tensor, target: Any) -> tensor:
    """fp32 or fp64 as integers, by the rule of `cast`.

    arith.fptosi is undefined out of range, and machines differ there. So out-of-range inputs are either clamped before
    it, or its result for them is not used.
    """
    from .arithmetic import compare, where

    low, high = target.get_int_min_value(), target.get_int_max_value()
    ordered = compare("==", value, value)
    inside = where(compare(">", value, constant(value.type.scalar, low)), value, constant(value.type.scalar, low))
    name = "arith.fptosi" if target.is_int_signed() else "arith.fptoui"
    if high < 2 ** (24 if value.type.scalar == float32 else 53):  # the largest integer is exact as a float
        top = constant(value.type.scalar, high)
        inside = where(compare("<", inside, top), inside, top)
        result = emit(name, [inside], shaped(value, target))
    else:
        result = emit(name, [inside], shaped(value, target))
        result = where(compare(">=", value, constant(value.type.scalar, high + 1)), constant(target, high), result)
    return where(ordered, result, constant(target, 0))


def float_op(name: str, operands: Sequence[tensor], attrs: dict[str, Any] | None = None) -> tensor:
    """An operation on floats of one type that rounds its result to that type.

    On fp8 it is computed in fp32 and the result is converted: folds of fp8 operations do not saturate.
    """
    element = operands[0].type.scalar
    if not element.is_fp8():
        return emit(name, operands, operands[0].type, attrs)
    wide = [cast(v, float32) for v in operands]
    return cast(emit(name, wide, wide[0].type, attrs), element)


def cast_pointer(value: tensor, source: Any, target: Any, ty: type_) -> tensor:
    if source.is_ptr() and target.is_ptr():
        if source.element_ty.is_block() or target.element_ty.is_block():
            raise error(f"expected plain pointers in a conversion, got {source} and {target}")
        if source.mlir == target.mlir:
            return tensor(value.handle, ty)
        return emit("tile.ptr_cast", [value], ty)
    if source.is_ptr():
        if target.is_int() and target.int_bitwidth == 64:
            return emit("tile.ptr_to_int", [value], ty)
        if target.is_bool():
            return cast(cast(value, int64), int1)
        raise error(f"expected kl.int64 (because an address has 64 bits), got {target}")
    if not source.is_int():
        raise error(f"expected an integer address, got {source}")
    return emit("tile.int_to_ptr", [cast(value, int64)], ty)


def widened_float(value: tensor) -> tensor:
    """Converts bf16 to fp32, as reductions and scans do first; anything else is unchanged."""
    check_calculates(value.type.scalar)
    return cast(value, float32) if value.type.scalar == bfloat16 else value

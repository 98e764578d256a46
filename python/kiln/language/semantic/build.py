"""Emission of single ops, for the rest of the semantic package.

Everything goes to the front end's current emitter, which knows the builder, the insertion point and the location.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.frontend.emission import active, current

from ..types import block_type, of_shape, type_
from ..values import tensor

_NOBODY: Any = object()


def error(message: str, hint: str | None = None, argument: str | None = None, value: Any = _NOBODY) -> Exception:
    """An error about the user's code; the front end adds the position.

    argument   the parameter of the called function that is at fault
    value      the value at fault, compared by identity, where the parameter is not known here
    """
    from kiln.errors import CompilationError, UsageError

    if active() is None:
        return UsageError(message, hint)
    problem = CompilationError(message, hint=hint, argument=argument)
    if value is not _NOBODY:
        problem.culprit = (value,)
    return problem


# For quotients and roots that need not be correctly rounded: GPUs have an instruction for those.
APPROXIMATE = "#arith.fastmath<afn>"


# Ops of those dialects that only move bits.
_MOVES = ("arith.bitcast", "arith.select")


def check_calculates(*elements: type_) -> None:
    """Raises an error for types that are storage formats only."""
    for element in elements:
        if element.is_fp8e4b15():
            raise error(
                "expected a type to calculate with (because fp8e4b15 is a format to keep numbers in), got fp8e4b15",
                hint="convert it with .to(kl.float16)",
            )


def emitter() -> Any:
    return current()


def emit(
    name: str,
    operands: Sequence[tensor],
    result: type_,
    attrs: dict[str, Any] | None = None,
    segments: Sequence[int] | None = None,
    regions: Sequence[int] = (),
) -> tensor:
    """An op with one result."""
    if name.startswith(("arith.", "math.", "tile.sort", "tile.topk")) and name not in _MOVES:
        for operand in operands:
            check_calculates(operand.type.scalar)
    handles = emitter().op(
        name, [t.handle for t in operands], [result.mlir], attrs or {}, list(regions),
        None if segments is None else list(segments),
    )  # fmt: skip
    return tensor(handles[0], result)


def emit_many(
    name: str,
    operands: Sequence[tensor],
    results: Sequence[type_],
    attrs: dict[str, Any] | None = None,
    segments: Sequence[int] | None = None,
    regions: Sequence[int] = (),
) -> list[tensor]:
    """An op with any number of results."""
    handles = emitter().op(
        name, [t.handle for t in operands], [r.mlir for r in results], attrs or {}, list(regions),
        None if segments is None else list(segments),
    )  # fmt: skip
    return [tensor(handle, ty) for handle, ty in zip(handles, results, strict=False)]


def constant(ty: type_, value: Any) -> tensor:
    """A constant scalar, or a tile filled with `value`. For an integer type, integers wrap to its width; a float must
    be finite, and is truncated and clamped to its range."""
    element = ty.scalar
    if element.is_int():
        bits = element.int_bitwidth
        if bits > 1 and isinstance(value, float) and abs(value) < float("inf"):
            value = min(max(int(value), element.get_int_min_value()), element.get_int_max_value())  # as `cast` does
        elif bits > 1 and isinstance(value, float):
            least = element.get_int_min_value()
            raise error(
                f"expected a number that {element} can hold (because its values are integers), got {value}",
                hint=f"the least and the greatest {element} are {least} and {element.get_int_max_value()}",
                value=value,
            )
        if bits > 1 and not -(1 << 63) <= value < 1 << 64:
            raise error(
                f"expected a number that {element} can hold, got an integer of {int(value).bit_length()} bits",
                value=value,
            )
        if bits == 1:
            value = bool(value)
        else:
            value = (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    else:
        try:
            value = encoded_e4b15(float(value)) if element.is_fp8e4b15() else float(value)
        except OverflowError:
            bits = value.bit_length()
            raise error(
                f"expected a number that {element} can hold, got an integer of {bits} bits", value=value
            ) from None
    return tensor(emitter().constant(ty.mlir, value), ty)


def encoded_e4b15(number: float) -> int:
    """The encoding of a number in fp8e4b15: the nearest one, the greater of two, or 1.75 for anything beyond."""
    size, sign = abs(number), -128 if math.copysign(1.0, number) < 0 else 0
    if not size < 1.75:
        return sign + 0x7E
    exponent = max(math.frexp(size)[1] - 1, -14) if size else -14
    return sign + 8 * (exponent + 14) + math.floor(math.ldexp(size, 3 - exponent) + 0.5)


def i32(value: int) -> str:
    """Attribute text."""
    return f"{value} : i32"


def array_i32(values: Sequence[int]) -> str:
    """Attribute text of a DenseI32ArrayAttr."""
    return f"array<i32: {', '.join(map(str, values))}>" if len(values) else "array<i32>"


def array_i64(values: Sequence[int]) -> str:
    """Attribute text of a DenseI64ArrayAttr."""
    return f"array<i64: {', '.join(map(str, values))}>" if len(values) else "array<i64>"


def string(text: str) -> str:
    """Attribute text of a string: quoted, everything but plain characters as hex escapes."""
    out = []
    for byte in text.encode():
        plain = 0x20 <= byte < 0x7F and byte not in (0x22, 0x5C)
        out.append(chr(byte) if plain else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def shaped(value: tensor, element: type_) -> type_:
    """The type with element type `element` and the shape of `value`."""
    return of_shape(element, value.type.shape)


def splat(value: tensor, shape: Sequence[int]) -> tensor:
    """A scalar repeated in a shape; the scalar itself if the shape is empty."""
    if not len(shape):
        return value
    return emit("tile.splat", [value], block_type(value.type, shape))

"""Printing, assertions and promises to the compiler."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from .. import values
from ..types import float16, int1
from ..values import tensor, unwrap, unwrap_deep
from .arithmetic import logical_not, logical_or, to_bool
from .build import array_i32, array_i64, emit, emit_many, error, string
from .cast import cast
from .operand import describe, to_tensor


def device_print(prefix: Any, arguments: Sequence[Any], hexadecimal: Any) -> None:
    prefix = unwrap(prefix)
    if not isinstance(prefix, str):
        raise error(f"expected a constexpr string as first argument of kl.device_print, got {describe(prefix)}",
                    hint='as in kl.device_print("x", x)', argument="prefix")  # fmt: skip
    if not prefix.isascii():
        raise error(f"expected plain ASCII as prefix of kl.device_print, got {prefix!r}", argument="prefix")
    operands: list[tensor] = []
    for argument in arguments:
        for value in leaves(argument):
            operand = to_tensor(value, "numbers and tensors in kl.device_print")
            kept = operand.type.scalar.is_fp8e4b15() and not unwrap(hexadecimal)
            operands.append(cast(operand, float16) if kept else operand)
    signed = [int(bool(getattr(t.type.scalar, "is_int_signed", bool)())) for t in operands]
    attrs: dict[str, Any] = {"prefix": string(prefix), "isSigned": array_i32(signed)}
    if unwrap(hexadecimal):
        attrs["hex"] = "unit"
    emit_many("tile.print", operands, [], attrs)


def leaves(value: Any) -> list[Any]:
    value = unwrap(value)
    if isinstance(value, (values.tuple, builtins.tuple, list)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def device_assert(condition: Any, message: Any, mask: Any = None) -> None:
    message = unwrap(message)
    if not isinstance(message, str):
        raise error(
            f"expected a constexpr string as message of kl.device_assert, got {describe(message)}", argument="msg"
        )
    from kiln import knobs

    if not knobs.device_assert:
        return
    flag = to_bool(condition)
    if unwrap(mask) is not None:
        flag = logical_or(flag, logical_not(to_bool(mask)))
    emit_many("tile.assert", [flag], [], {"message": string(message)})


def assume(condition: Any) -> None:
    value = unwrap(condition)
    if not isinstance(value, tensor):
        if not value:
            raise error("expected a promise that can hold in kl.assume, got one that is false", argument="cond")
        return
    if value.type.is_block():
        raise error(f"expected a scalar condition in kl.assume, got {value.type}", argument="cond")
    from kiln import knobs

    if knobs.check != "none":
        # Not assumed as well: the compiler could conclude that the assertion holds.
        emit_many("tile.assert", [to_bool(value)], [], {"message": string("the promise of kl.assume does not hold")})
        return
    emit_many("tile.assume", [to_bool(value)], [])


def unlikely(condition: Any) -> tensor:
    value = to_tensor(condition, "a condition in kl.unlikely")
    return emit("tile.unlikely", [to_bool(value)], int1)


def barrier() -> None:
    emit_many("tile.barrier", [], [])


def hint(value: Any, kind: str, numbers: Any, what: str) -> tensor:
    """`kind` is divisibility, contiguity or constancy; one number for each dimension."""
    value = to_tensor(value)
    numbers = unwrap_deep(numbers)
    if not isinstance(numbers, (builtins.tuple, list)):
        numbers = [numbers]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise error(f"expected positive constexpr integers in {what}, got {describe(number)}", argument="values")
    dims = max(1, len(value.type.shape))
    if len(numbers) == 1 and dims > 1 and kind == "divisibility":
        numbers = list(numbers) * dims
    if len(numbers) != dims:
        raise error(
            f"expected {dims} numbers in {what} (one for each dimension of {value.type}), got {len(numbers)}",
            argument="values",
        )
    if value.type.scalar.is_floating() if hasattr(value.type.scalar, "is_floating") else False:
        raise error(f"expected integers or pointers in {what}, got {value.type}")
    return emit("tile.hint", [value], value.type, {kind: array_i64(numbers)})

"""Operators on numbers and pointers: arithmetic, bits, comparison, logic, selection, minimum and maximum."""

from __future__ import annotations

from typing import Any

from .. import loops, values
from ..types import PropagateNan, as_const, float32, int1, int64
from ..values import COMPARISONS, FOLD, constexpr, is_number, tensor, unwrap
from .build import APPROXIMATE, constant, emit, error, shaped
from .cast import cast, float_op
from .operand import describe, to_tensor
from .promotion import broadcast_pair, promote


def binary(op: str, a: Any, b: Any) -> Any:
    """`a op b` for Python's arithmetic and bit operators, except `@` of tensors. Two constexprs fold."""
    if not isinstance(a, tensor) and not isinstance(b, tensor):
        folded = fold(op, a, b)
        if folded is not None:
            return folded
    if op in ("+", "-"):
        return add_sub(op, a, b)
    if op == "*":
        lhs, rhs = promote(a, b, op)
        return float_op("arith.mulf", [lhs, rhs]) if is_float(lhs) else emit("arith.muli", [lhs, rhs], lhs.type)
    if op == "/":
        return divide(a, b)
    if op == "//":
        return floor_divide(a, b)
    if op == "%":
        return remainder(a, b)
    if op in ("&", "|", "^"):
        lhs, rhs = integers(a, b, op)
        return emit({"&": "arith.andi", "|": "arith.ori", "^": "arith.xori"}[op], [lhs, rhs], lhs.type)
    if op in ("<<", ">>"):
        return shift(op, a, b)
    if op in COMPARISONS:
        return compare(op, a, b)
    if op == "**":
        raise error(
            "expected an operator that kernels have, got **", hint="use kl.exp2(y * kl.log2(x)), or x * x for a square"
        )
    raise error(f"expected an operator that kernels have, got {op}")


def fold(op: str, a: Any, b: Any) -> Any:
    """The folded result if both values are known at compile time; else None."""
    x, y = unwrap(a), unwrap(b)
    if isinstance(x, tensor) or isinstance(y, tensor):
        return None
    function = FOLD.get(op)
    if function is None:
        return None
    try:
        result = function(x, y)
    except ZeroDivisionError:
        raise error(f"expected a divisor other than 0 as right operand of {op}, got {describe(y)}", value=y) from None
    except TypeError:
        raise error(f"expected operands that {op} accepts, got {describe(x)} and {describe(y)}") from None
    except (ValueError, OverflowError, MemoryError) as problem:
        raise error(f"expected operands that {op} accepts, got {describe(x)} and {describe(y)}: {problem}") from None
    if isinstance(result, (tensor, values.tuple)):
        return result
    return constexpr(result)


def is_float(value: tensor) -> bool:
    return value.type.scalar.is_floating()


def is_unsigned(value: tensor) -> bool:
    return value.type.scalar.is_int_unsigned()


def is_pointer(value: tensor) -> bool:
    return value.type.scalar.is_ptr()


def add_sub(op: str, a: Any, b: Any) -> tensor:
    lhs, rhs = promote(a, b, op, pointers=(True, op == "+"))
    if is_pointer(rhs):
        if is_pointer(lhs):
            raise error(f"expected an integer offset as one operand of {op}, got two pointers")
        lhs, rhs = rhs, lhs
    if is_pointer(lhs):
        if not rhs.type.scalar.is_int():
            raise error(f"expected an integer offset (because a pointer steps in whole elements), got {rhs.type}")
        if is_unsigned(rhs):
            rhs = cast(rhs, int64)  # before the sign changes, and because the op reads offsets as signed
        return step(lhs, rhs if op == "+" else negate(rhs))
    name = "add" if op == "+" else "sub"
    if is_float(lhs):
        return float_op(f"arith.{name}f", [lhs, rhs])
    return emit(f"arith.{name}i", [lhs, rhs], lhs.type)


def step(pointer: tensor, offset: tensor) -> tensor:
    """A pointer moved by a signed number of elements."""
    element = pointer.type.scalar.element_ty
    if element.is_block():
        raise error(
            "expected a plain pointer as operand of +, got a block pointer", "move it with kl.advance", value=pointer
        )
    return emit("tile.addptr", [pointer, offset], pointer.type)


def divide(a: Any, b: Any) -> tensor:
    """`/`: the result is always a float. Integers and 16-bit floats are divided in fp32."""
    lhs, rhs = promote(a, b, "/", division=True)
    if not is_float(lhs):
        lhs, rhs = cast(lhs, float32), cast(rhs, float32)
    return emit("arith.divf", [lhs, rhs], lhs.type, {"fastmath": APPROXIMATE})


def floor_divide(a: Any, b: Any) -> tensor:
    """`//`: for integers, truncating as in C."""
    lhs, rhs = promote(a, b, "//", division=True)
    if is_float(lhs):
        raise error(
            f"expected integers as operands of // (because floats have no floor division here), got {lhs.type.scalar}",
            hint="use kl.floor(x / y)",
        )
    return emit("arith.divui" if is_unsigned(lhs) else "arith.divsi", [lhs, rhs], lhs.type)


def remainder(a: Any, b: Any) -> tensor:
    """`%`: the result has the sign of the left operand, as in C."""
    lhs, rhs = promote(a, b, "%", division=True)
    if is_float(lhs):
        return emit("arith.remf", [lhs, rhs], lhs.type)
    return emit("arith.remui" if is_unsigned(lhs) else "arith.remsi", [lhs, rhs], lhs.type)


def integers(a: Any, b: Any, op: str) -> tuple[tensor, tensor]:
    """Promotes both operands; raises an error unless they are integers."""
    for side, value in (("left", a), ("right", b)):
        value = unwrap(value)
        element = None if is_number(value) else to_tensor(value, f"an integer as {side} operand of {op}").type.scalar
        floating = isinstance(value, float) or (element is not None and element.is_floating())
        if floating:
            got = f"{element}" if element is not None else repr(value)
            raise error(
                f"expected integers as operands of {op}, got {got} on the {side}",
                hint="for conditions compare first, as in (x > 0) & (y > 0)" if op in "&|^" else None,
                value=value,
            )
    return promote(a, b, op)


def shift(op: str, a: Any, b: Any) -> tensor:
    """`<<` and `>>`; the latter keeps the sign of signed integers."""
    lhs, rhs = integers(a, b, op)
    if op == "<<":
        return emit("arith.shli", [lhs, rhs], lhs.type)
    # The left operand's type before promotion decides: an unsigned right operand must not make the shift logical.
    left = unwrap(a)
    signed = lhs.type.scalar.is_int_signed() if is_number(left) else left.type.scalar.is_int_signed()
    return emit("arith.shrsi" if signed else "arith.shrui", [lhs, rhs], lhs.type)


def unary(op: str, value: Any) -> Any:
    """`-x`, `+x`, `~x`, `not x`."""
    value = unwrap(value)
    if not isinstance(value, tensor):
        try:
            result = {"-": lambda v: -v, "+": lambda v: +v, "~": lambda v: ~v, "not": lambda v: not v}[op](value)
        except TypeError:
            raise error(f"expected a number as operand of {op}, got {describe(value)}") from None
        return constexpr(result)
    if op == "not":
        return logical_not(value)
    if is_pointer(value):
        raise error(f"expected a number as operand of {op}, got {value.type}")
    if op == "+":
        return value
    if op == "-":
        return negate(value)
    if is_float(value):
        raise error(f"expected an integer as operand of ~, got {value.type.scalar}")
    return emit("arith.xori", [value, constant(value.type, -1)], value.type)


def negate(value: tensor) -> tensor:
    if is_float(value):
        return emit("arith.negf", [value], value.type)
    return emit("arith.subi", [constant(value.type, 0), value], value.type)


_FLOAT_PREDICATE = {"==": 1, ">": 2, ">=": 3, "<": 4, "<=": 5, "!=": 13}  # oeq ogt oge olt ole une
_SIGNED_PREDICATE = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_UNSIGNED_PREDICATE = {"==": 0, "!=": 1, "<": 6, "<=": 7, ">": 8, ">=": 9}


def compare(op: str, a: Any, b: Any) -> Any:
    """`a op b`: false where an operand is NaN, except for `!=`."""
    if not isinstance(a, tensor) and not isinstance(b, tensor):
        folded = fold(op, a, b)
        if folded is not None:
            return folded
    if op in ("==", "!=") and (unwrap(a) is None or unwrap(b) is None):
        return constexpr(op == "!=")  # a tensor is never None
    lhs, rhs = promote(a, b, op)
    ty = shaped(lhs, int1)
    if is_float(lhs):
        return emit("arith.cmpf", [lhs, rhs], ty, {"predicate": f"{_FLOAT_PREDICATE[op]} : i64"})
    table = _UNSIGNED_PREDICATE if is_unsigned(lhs) else _SIGNED_PREDICATE
    return emit("arith.cmpi", [lhs, rhs], ty, {"predicate": f"{table[op]} : i64"})


def to_bool(value: Any) -> tensor:
    value = to_tensor(value, "a condition")
    return value if value.type.scalar == int1 else cast(value, int1)


def logical_and(a: Any, b: Any) -> Any:
    """`a and b`; for tensors elementwise, without short-circuiting."""
    if not isinstance(unwrap(a), tensor) and not isinstance(unwrap(b), tensor):
        return constexpr(unwrap(a) and unwrap(b))
    return binary("&", to_bool(a), to_bool(b))


def logical_or(a: Any, b: Any) -> Any:
    """`a or b`; for tensors elementwise, without short-circuiting."""
    if not isinstance(unwrap(a), tensor) and not isinstance(unwrap(b), tensor):
        return constexpr(unwrap(a) or unwrap(b))
    return binary("|", to_bool(a), to_bool(b))


def logical_not(a: Any) -> Any:
    a = unwrap(a)
    if not isinstance(a, tensor):
        return constexpr(not a)
    flag = to_bool(a)
    return emit("arith.xori", [flag, constant(flag.type, 1)], flag.type)


def condition(value: Any) -> int | bool:
    """The condition of an `if` or a `while`: a Python bool if known at compile time, else the handle of an i1."""
    value = unwrap(value)
    if isinstance(value, loops.condition):
        value = unwrap(value.condition)
    if not isinstance(value, tensor):
        return bool(value)
    if value.type.is_block():
        if value.type.numel == 1:
            value = emit("tile.unsplat", [value], value.type.scalar)
        else:
            raise error(
                f"expected a scalar condition (because a program instance takes one branch), got a tile {value.type}",
                hint="use kl.where for a choice per element, or reduce it with kl.max",
            )
    return to_bool(value).handle


def where(cond: Any, x: Any, y: Any) -> tensor:
    """`x` where the condition holds, else `y`."""
    flag = to_bool(cond)
    x, y = unwrap(x), unwrap(y)
    if any(isinstance(v, tensor) and is_pointer(v) for v in (x, y)) and not all(
        isinstance(v, tensor) and is_pointer(v) for v in (x, y)
    ):
        raise error(f"expected two pointers or two numbers as choices of kl.where, got {describe(x)} and {describe(y)}")
    x, y = promote(x, y, "kl.where", pointers=(True, True))
    if flag.type.is_block():
        flag, x = broadcast_pair(flag, x, "kl.where")
        x, y = broadcast_pair(x, y, "kl.where")
    # If either pointer is const, so is the result.
    return emit("arith.select", [flag, x, y], as_const(x.type) if y.type.scalar.is_const() else x.type)


def nan_mode(value: Any) -> PropagateNan:
    mode = unwrap(value)
    if not isinstance(mode, PropagateNan):
        raise error(
            f"expected kl.PropagateNan.NONE or kl.PropagateNan.ALL as propagate_nan, got {describe(mode)}",
            argument="propagate_nan",
        )
    return mode


def extremum(which: str, a: Any, b: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """`which` is 'max' or 'min'."""
    lhs, rhs = promote(a, b, f"kl.{which}imum")
    mode = nan_mode(propagate_nan)
    if is_float(lhs):
        name = f"arith.{which}imumf" if mode is PropagateNan.ALL else f"arith.{which}numf"
    else:
        name = f"arith.{which}{'ui' if is_unsigned(lhs) else 'si'}"
    return emit(name, [lhs, rhs], lhs.type)


def clamp(x: Any, low: Any, high: Any, propagate_nan: Any) -> tensor:
    """Clamps `x` to two bounds. A NaN in `x` gives the lower bound, or NaN if NaN is to propagate."""
    mode = nan_mode(propagate_nan)
    low, high = promote(low, high, "kl.clamp")
    x, low = promote(x, low, "kl.clamp")
    x, high = promote(x, high, "kl.clamp")
    low = broadcast_pair(low, x)[0]
    if not is_float(x):
        raise error(f"expected floats in kl.clamp, got {x.type.scalar}", hint="use kl.minimum(kl.maximum(x, lo), hi)")
    return extremum("min", extremum("max", x, low, mode), high, mode)


def divide_float(a: Any, b: Any, what: str = "kl.fdiv", exact: bool = False) -> tensor:
    """Quotient of floats; unlike `/`, it does not convert 16-bit floats to fp32. Correctly rounded on every target if
    `exact`, and also for operands narrower than fp32, where an error of 2 ulp could break ties wrongly."""
    a, b = unwrap(a), unwrap(b)
    for value in (a, b):
        if not isinstance(value, float) and not is_float(to_tensor(value)):
            raise error(f"expected floats in {what}, got {describe(value)}", hint="use the operator /")
    operands = promote(a, b, what)
    exact = exact or operands[0].type.scalar.primitive_bitwidth < 32
    return float_op("arith.divf", operands, None if exact else {"fastmath": APPROXIMATE})


def high_product(a: Any, b: Any) -> tensor:
    """The upper half of the product of two 32- or 64-bit unsigned integers."""
    lhs, rhs = promote(a, b, "kl.umulhi")
    if lhs.type.scalar.primitive_bitwidth not in (32, 64) or is_float(lhs):
        raise error(f"expected 32- or 64-bit integers in kl.umulhi, got {lhs.type.scalar}")
    from .build import emit_many

    return emit_many("arith.mului_extended", [lhs, rhs], [lhs.type, lhs.type])[1]

"""Arguments of an operation: numbers become tensors, constants and functions are checked, and all have a description
for errors."""

from __future__ import annotations

from typing import Any

from ..types import dtype, float32, int1, int32, int64, pointer_type, type_, uint32, uint64
from ..types import float64 as fp64
from ..values import constexpr, is_number, tensor, tensor_descriptor, unwrap
from ..values import tuple as Tuple
from .build import constant, error


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


def describe_side(value: Any) -> str:
    """The same of what was given as a side of a tile."""
    return f"a value of type {value.type}" if isinstance(value, tensor) else describe(value)


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


def constexpr_int(value: Any, what: str, argument: str | None = None) -> int:
    """An integer that must be known at compile time."""
    value = unwrap(value)
    if isinstance(value, bool) or not isinstance(value, int):
        hint = "declare the parameter it comes from as kl.constexpr" if isinstance(value, tensor) else None
        raise error(f"expected a constexpr integer as {what}, got {describe(value)}", hint, argument, value)
    return value

"""A kernel's specialisation: one `Parameter` for each parameter of the Python function, in order.

The launcher and ahead-of-time compilation make this list; `kiln.frontend.emit` reads it. It is plain data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln.language import types

DIVISIBILITY = 16
"""The divisor that `Parameter.divisible` promises; also the bytes that a copy engine reads at once."""


class Parameter(NamedTuple):
    """One parameter of a kernel, specialised.

    kind       "constexpr": known at compile time, in `value` (None, bool, int, float, str, a dtype, a jit function or
               a tuple of these). "runtime": passed at launch, with the type `type`. "tuple": a tuple of further
               parameters, in `items`, with its field names in `fields` if it is a named one, and its class in `cls` if
               it is a struct.
    type       "*fp32", "i32", "u8", "fp32", "i1", "tensordesc<fp32[64,64]>"; read by kiln.language.types.parse.
    divisible  the pointer or integer is a multiple of 16; for a descriptor, its base pointer is.
    divisor    for an integer that is no multiple of 16 but a stride of descriptors: 8 or 4 if that divides it.
    padding    for a descriptor: what is read outside it, "zero" or "nan".
    whole_rows for a descriptor: its rows are a multiple of 16 bytes. (Its strides always are.)

    In the IR, a tuple becomes its items in order and a descriptor becomes base pointer, shape (i64 each) and strides
    (i64 each), see `flat_parameters`.
    """

    name: str
    kind: str
    type: str | None = None
    value: Any = None
    divisible: bool = False
    padding: str = "zero"
    divisor: int = 1
    whole_rows: bool = False
    items: tuple[Parameter, ...] = ()
    fields: tuple[str, ...] = ()
    cls: Any = None

    @property
    def spelled_type(self) -> str:
        """The type and its known divisor, in the syntax of signatures: `*fp32:16`."""
        divisor = DIVISIBILITY if self.divisible else self.divisor
        return f"{self.type}{f':{divisor}' if divisor > 1 else ''}{':rows' if self.whole_rows else ''}"

    @property
    def spelled(self) -> str:
        """The parameter as signatures write it: `*fp32:16`, `1024`, `Rows(*fp32:16, i32)`."""
        if self.kind == "constexpr":
            return repr(self.value)
        if self.kind == "tuple":
            name = self.cls.__name__ if self.cls is not None else ""
            return f"{name}({', '.join(item.spelled for item in self.items)})"
        return self.spelled_type


def join_parameters(
    name: str, items: tuple[Parameter, ...], fields: tuple[str, ...] = (), cls: Any = None
) -> Parameter:
    """A tuple of these items: a constant if all of them are, unless they have names."""
    if all(item.kind == "constexpr" for item in items) and not fields:
        return Parameter(name, "constexpr", value=tuple(item.value for item in items))
    return Parameter(name, "tuple", items=items, fields=fields, cls=cls)


class FlatParameter(NamedTuple):
    """One argument of the compiled function, in the order of the packed argument block."""

    name: str
    type: str
    divisor: int = 1


def array_names(parameters: list[Parameter] | tuple[Parameter, ...]) -> list[str]:
    """The arguments of the compiled function that are arrays, in order."""
    return [flat.name for flat in flat_parameters(parameters) if flat.type.startswith("*")]


def flat_parameters(parameters: list[Parameter] | tuple[Parameter, ...]) -> list[FlatParameter]:
    """The arguments of the compiled function for `parameters`: names like `x`, `pair.0`, `desc.shape.1`."""
    flat: list[FlatParameter] = []
    for parameter in parameters:
        if parameter.kind == "constexpr":
            continue
        if parameter.kind == "tuple":
            flat += flat_parameters(parameter.items)
            continue
        assert parameter.type is not None, parameter
        if not parameter.type.startswith("tensordesc<"):
            divisor = DIVISIBILITY if parameter.divisible else parameter.divisor
            flat.append(FlatParameter(parameter.name, parameter.type, divisor))
            continue
        element, shape = descriptor_block(parameter.type)
        flat.append(FlatParameter(parameter.name, "*" + element, DIVISIBILITY if parameter.divisible else 1))
        # The number of elements in 16 bytes: a launch refuses other strides. The last stride is 1.
        kind = types.parse(element)
        assert isinstance(kind, types.dtype), element
        row = DIVISIBILITY // max(kind.itemsize, 1)
        last = len(shape) - 1
        for i in range(len(shape)):
            whole = i == last and parameter.whole_rows
            flat.append(FlatParameter(f"{parameter.name}.shape.{i}", "i64", row if whole else 1))
        for i in range(len(shape)):
            flat.append(FlatParameter(f"{parameter.name}.stride.{i}", "i64", row if i < last else 1))
    return flat


def descriptor_block(text: str) -> tuple[str, tuple[int, ...]]:
    """Element type and block shape of "tensordesc<fp32[64,64]>"."""
    element, _, rest = text[len("tensordesc<") : -1].partition("[")
    sides = rest.rstrip("]")
    return element, tuple(int(side) for side in sides.split(",")) if sides else ()

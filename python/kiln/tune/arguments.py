"""Arguments of a launch, including those inside tuples and structs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def leaves(given: Iterable[Any]) -> Iterator[Any]:
    """All values, including those inside tuples and structs."""
    for value in given:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value


def field_of(value: Any, fields: str) -> Any:
    """`value.a.b` for the fields "a.b"; the value itself for none."""
    for name in fields.split(".") if fields else ():
        value = getattr(value, name)
    return value


def named(arguments: Mapping[str, Any], name: str) -> Any:
    """The argument `x`, or the field `x.data` of one."""
    first, _, fields = name.partition(".")
    return field_of(arguments[first], fields)


def is_array(value: Any) -> bool:
    """Whether `copy_of` and `fill` accept it."""
    return hasattr(value, "__setitem__") and (hasattr(value, "clone") or hasattr(value, "copy"))


def copy_of(array: Any) -> Any:
    """A copy of an array of torch, numpy or a similar library."""
    clone = getattr(array, "clone", None)
    return clone() if clone is not None else array.copy()


def fill(array: Any, value: Any) -> None:
    """Sets an array to a number or to the values of another."""
    copy = getattr(array, "copy_", None)
    if copy is None:
        array[...] = value
    elif isinstance(value, (int, float)):
        array.fill_(value)
    else:
        copy(value)

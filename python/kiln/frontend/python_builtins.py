"""The Python builtins that kernels may use, and their meaning on values of the language."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kiln.errors import CompilationError
from kiln.frontend import struct as structs
from kiln.frontend import suggestions
from kiln.language import semantic, values


@dataclass(frozen=True)
class PythonBuiltin:
    """A Python builtin as kernels see it."""

    name: str
    run: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return self.name


def _language(name: str) -> Any:
    import kiln.language

    return getattr(kiln.language, name)


def _len(value: Any) -> Any:
    value = values.unwrap(value)
    if isinstance(value, values.tensor):
        if not value.type.is_block():
            hint = suggestions.of_array("shape") if suggestions.is_pointer(value) else None
            raise CompilationError(f"expected a tuple or a tile as argument of len, got {value.type}", hint=hint)
        return values.constexpr(value.type.shape[0])
    try:
        return values.constexpr(len(value))
    except TypeError:
        raise CompilationError(f"expected a tuple as argument of len, got {semantic.describe(value)}") from None


def _extremum(name: str) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        items = _items(name, arguments[0]) if len(arguments) == 1 else list(arguments)
        if not items:
            raise CompilationError(f"expected at least one value as argument of {name}, got none")
        if not any(isinstance(item, values.tensor) for item in items):
            return values.constexpr(getattr(builtins, name)(*[values.unwrap(item) for item in items], key=None))
        result = items[0]
        for item in items[1:]:
            result = _language("maximum" if name == "max" else "minimum")(result, item)
        return result

    return run


def _items(name: str, value: Any) -> list[Any]:
    """The elements of a tuple; for a tile, an error that suggests the language's function instead of Python's."""
    if isinstance(value, values.tensor):
        raise CompilationError(
            f"expected a tuple as argument of Python's {name} (because it iterates at compile time), got {value.type}",
            hint=suggestions.of_reduction(name),
        )
    return list(value)


def _sum(items: Any, start: Any = 0) -> Any:
    result = start
    for item in _items("sum", items):
        result = semantic.binary("+", result, item)
    return result


def _abs(value: Any) -> Any:
    value = values.unwrap(value)
    return _language("abs")(value) if isinstance(value, values.tensor) else values.constexpr(abs(value))


def _convert(name: str, target: str) -> Callable[..., Any]:
    def run(value: Any = 0) -> Any:
        value = values.unwrap(value)
        if isinstance(value, values.tensor):
            return semantic.cast(value, _language(target))
        return values.constexpr(getattr(builtins, name)(value))

    return run


def _bool(value: Any = False) -> Any:
    value = values.unwrap(value)
    if isinstance(value, values.tensor):
        return semantic.compare("!=", value, values.constexpr(0))
    return values.constexpr(bool(value))


def _isinstance(value: Any, classes: Any) -> Any:
    listed = values.unwrap(classes)
    wanted = [values.unwrap(c) for c in (listed if isinstance(listed, (tuple, list, values.tuple)) else [listed])]
    wanted = [{"int": int, "float": float, "bool": bool, "str": str}.get(getattr(c, "name", ""), c) for c in wanted]
    wanted = [values.tuple if getattr(c, "name", "") in ("tuple", "list") else c for c in wanted]
    matches = any(
        isinstance(candidate, cls)
        for cls in wanted
        if isinstance(cls, type)
        for candidate in (value, values.unwrap(value))
    ) or (
        isinstance(value, values.tuple)
        and value.cls is not None
        and any(isinstance(cls, type) and issubclass(value.cls, cls) for cls in wanted)
    )
    return values.constexpr(matches)


def attribute(value: Any, name: str) -> Any:
    """`value.name`; AttributeError if there is none."""
    if isinstance(value, values.tuple):
        if value.cls is not None:
            return structs.member(value, name)
        if value.fields and name in value.fields:
            return value.values[value.fields.index(name)]
    return getattr(value, name)


def _getattr(value: Any, name: Any, *default: Any) -> Any:
    try:
        return attribute(value, values.unwrap(name))
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(value: Any, name: Any) -> Any:
    try:
        attribute(value, values.unwrap(name))
    except AttributeError:
        return values.constexpr(False)
    return values.constexpr(True)


def _tuple(items: Any = ()) -> Any:
    return values.tuple(list(items))


def _zip(*columns: Any) -> Any:
    return values.tuple([values.tuple(row) for row in zip(*columns, strict=False)])


def _enumerate(items: Any, start: Any = 0) -> Any:
    first = values.unwrap(start)
    return values.tuple([values.tuple([values.constexpr(i), item]) for i, item in enumerate(items, first)])


def _reversed(items: Any) -> Any:
    return values.tuple(list(items)[::-1])


def _quantifier(name: str) -> Callable[..., Any]:
    def run(items: Any) -> Any:
        result: Any = values.constexpr(name == "all")
        for item in _items(name, items):
            if isinstance(item, values.tensor) or isinstance(result, values.tensor):
                combine = semantic.logical_and if name == "all" else semantic.logical_or
                result = combine(result, item)
            elif bool(values.unwrap(item)) != (name == "all"):
                return values.constexpr(name != "all")
        return result

    return run


def _print(*arguments: Any, **options: Any) -> Any:
    prefix = values.unwrap(arguments[0]) if arguments else ""
    if isinstance(prefix, str):
        return _language("device_print")(prefix, *arguments[1:], **options)
    return _language("device_print")("", *arguments, **options)


def _text(name: str) -> Callable[..., Any]:
    def run(value: Any = "") -> Any:
        if isinstance(value, values.tensor):
            raise CompilationError(f"expected a constexpr as argument of {name}, got a value of type {value.type}")
        return values.constexpr(getattr(builtins, name)(values.unwrap_deep(value)))

    return run


def _type(value: Any) -> Any:
    return values.type_of(value)


def _loop_only(name: str) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        raise CompilationError(
            f"expected {name} only as the iterable of a for loop, got it elsewhere",
            hint="use kl.arange for a tile",
        )

    return run


_RUN: dict[str, Callable[..., Any]] = {
    "len": _len, "min": _extremum("min"), "max": _extremum("max"), "sum": _sum, "abs": _abs,
    "int": _convert("int", "int32"), "float": _convert("float", "float32"), "bool": _bool,
    "isinstance": _isinstance, "getattr": _getattr, "hasattr": _hasattr, "tuple": _tuple, "list": _tuple,
    "zip": _zip, "enumerate": _enumerate, "reversed": _reversed, "all": _quantifier("all"), "any": _quantifier("any"),
    "print": _print, "str": _text("str"), "repr": _text("repr"), "type": _type, "range": _loop_only("range"),
}  # fmt: skip

TABLE: dict[str, PythonBuiltin] = {name: PythonBuiltin(name, run) for name, run in _RUN.items()}

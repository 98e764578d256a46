"""Signatures on the command line: `x=*fp32:16, n=i32, BLOCK=1024`.

    NAME=TYPE        an argument of that type: *fp32, i32, u8, fp32, i1, tensordesc<fp32[64,64]>, a tuple of these
    NAME=TYPE:16     which is a multiple of 16 (a pointer or an integer)
    NAME=(A, B)      a tuple of these; of a named tuple's items NAME=(x=*fp32, rows=i32, step=None)
    NAME=VALUE       a constexpr: a literal, a type of the language such as kl.float32, or an expression in the names of
                     the kernel's module, such as Plan(64, 64)
    NAME=Rows(…)     a struct: its fields in order or by name, Rows(data=*fp32:16, stride=i32); the class is found where
                     the kernel finds it, and a parameter annotated with a class needs no name: (*fp32:16, i32)

Parameters left out take their default, which makes them constexpr. The launcher's own C++ function interprets types and
values, so a kernel compiled here is the one that a launch would compile. Which arrays of a launch overlap is not part
of the signature: `--disjoint` says it.
"""

from __future__ import annotations

from typing import Any

from kiln import errors
from kiln.frontend.function import KernelFunction
from kiln.frontend.signature import Parameter, array_names, join_parameters
from kiln.frontend.struct import annotation_of, class_of, constexpr_fields, is_struct


def parse_signature(text: str, function: KernelFunction) -> list[Parameter]:
    """One parameter for each parameter of `function`, in order."""
    given: dict[str, str] = {}
    for part in split(text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise errors.UserError(f"signature: expected NAME=TYPE or NAME=VALUE, got {part!r}")
        if name in given:
            raise errors.UserError(f"signature: {name!r} is given twice")
        given[name] = value
    names = [p.name for p in function.params]
    for name in given:  # reported before missing parameters: a misspelt name causes both
        if name not in names:
            near = errors.near_match(name, names)
            raise errors.UserError(
                f"signature: the kernel has no parameter {name!r}" + (f"; did you mean {near!r}?" if near else "")
            )
    return [_parameter(p, given.get(p.name), function) for p in function.params]


def parse_disjoint(text: str | None, parameters: list[Parameter]) -> list[bool]:
    """For each array of `parameters`, in order: whether `text` says that no other array overlaps it.

    `text` is None, "all", or names: of arrays, or of tuples for all arrays in them.
    """
    arrays = array_names(parameters)
    if text is None:
        return [False] * len(arrays)
    if text.strip() == "all":
        return [True] * len(arrays)
    found: set[str] = set()
    for name in split(text):
        named = [array for array in arrays if array == name or array.startswith(name + ".")]
        if not named:
            raise errors.UserError(_no_array(name, arrays, parameters))
        found.update(named)
    if not found:
        raise errors.UserError(f"--disjoint: expected names of arrays or 'all', got {text!r}")
    return [array in found for array in arrays]


def _no_array(name: str, arrays: list[str], parameters: list[Parameter]) -> str:
    known = f"; the arrays are {', '.join(arrays)}" if arrays else "; the kernel has none"
    for parameter in parameters:
        if parameter.name == name:
            kind = parameter.type if parameter.kind == "runtime" else f"a {parameter.kind}"
            problem = f"--disjoint: expected an array (because others have no storage), got {name!r}, which is {kind}"
            return problem + known
    near = errors.near_match(name, arrays)
    return f"--disjoint: the kernel has no array {name!r}" + (f"; did you mean {near!r}?" if near else known)


def split(text: str) -> list[str]:
    """The items of `text` between commas, but not those inside brackets or quotes; empty ones are left out."""
    return [part for part in split_at(text, ",") if part]


def split_at(text: str, separator: str) -> list[str]:
    """`text` at the separators outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


_LONG = {
    **{f"int{n}": f"i{n}" for n in (1, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    "float16": "fp16", "f16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "f32": "fp32",
    "float": "fp32", "float64": "fp64", "f64": "fp64", "double": "fp64", "int": "i32", "long": "i64", "bool": "i1",
    "float8e4nv": "fp8e4nv", "float8e5": "fp8e5",
}  # fmt: skip


def _spelling(value: str) -> str | None:
    """The spelling in signatures (`*fp32`) of a type written as in other programs (`*float32`); None if it is no
    type."""
    star, rest = value[: value.startswith("*")], value.removeprefix("*").strip()
    name, colon, divisor = rest.partition(":")
    if name.endswith("*") and not star:  # C's
        star, name = "*", name[:-1]
    name = name.strip().rpartition(".")[2]
    known = _LONG.get(name) or errors.near_match(name, set(_LONG.values()))
    return f"{star}{known}{colon}{divisor}" if known and name else None


def _parameter(parameter: Any, value: str | None, function: KernelFunction) -> Parameter:
    if value is None:
        if not parameter.has_default:
            raise errors.UserError(f"signature: expected a type or a value for parameter {parameter.name!r}, got none")
        return _constant(parameter.default, parameter.name)
    if parameter.is_constexpr and _is_expression(value, function):
        try:
            return Parameter(parameter.name, "constexpr", value=eval(value, dict(function.fn.__globals__)))
        except NameError as problem:
            raise errors.UserError(
                f"signature: expected a value for {parameter.name!r} (because it is constexpr), such as 1024 or a name"
                f" of the module of {function.__name__}, got {value!r} ({problem})"
            ) from None
        except Exception as problem:
            raise errors.UserError(f"signature: {parameter.name!r}: {value}: {problem}") from None
    item = _item(value, parameter.name, function, _class(_annotation(parameter), function))
    if parameter.is_constexpr and _is_runtime(item):
        raise errors.UserError(
            f"signature: expected a value for {parameter.name!r} (because it is constexpr), got {value!r}"
        )
    return item


def _is_expression(value: str, function: KernelFunction) -> bool:
    """Whether the value of a constexpr is an expression: a call, a tuple, or one that begins with a name that is no
    type."""
    first = value.partition(".")[0].strip()
    if value.rstrip().endswith(")"):
        return True
    if not first.isidentifier() or first in ("kl", "tl", "None", "True", "False", "inf", "nan"):
        return False
    return first in function.fn.__globals__ or _spelling(value) is None


def _is_runtime(item: Parameter) -> bool:
    return item.kind == "runtime" or any(map(_is_runtime, item.items))


def _item(value: str, name: str, function: KernelFunction, annotated: Any = None) -> Parameter:
    """A type or a value; `annotated`: the class of a struct that is expected."""
    if value.startswith(("kl.", "tl.")):
        from kiln import language

        constant = getattr(language, value[3:], None)
        if constant is None:
            raise errors.UserError(f"signature: {name!r}: kiln.language has no {value[3:]!r}")
        return Parameter(name, "constexpr", value=constant)
    written, bracket, rest = value.partition("(")
    if bracket and rest.endswith(")") and (not written or written.replace(".", "_").isidentifier()):
        cls = annotated
        if written:
            cls = _class(written.strip(), function)
            if cls is None:
                raise errors.UserError(f"signature: {name!r}: expected the name of a struct that the module of"
                                       f" {function.__name__} has, got {written!r}")  # fmt: skip
        if cls is not None:
            return _struct(split(rest[:-1]), cls, name, function)
        parts = [_named(part) for part in split(rest[:-1])]
        fields = tuple(field for field, _ in parts if field)
        if fields and len(fields) < len(parts):
            raise errors.UserError(f"signature: {name!r}: expected names of all items or of none, got {value!r}")
        inner = (_item(part, f"{name}.{field or i}", function) for i, (field, part) in enumerate(parts))
        return join_parameters(name, tuple(inner), fields)
    from kiln import _kiln

    try:
        return _kiln.parse_parameter(name, value)
    except errors.LaunchError as error:
        near = _spelling(value)
        meant = f" (did you mean {near!r}?)" if near else ""
        raise errors.UserError(f"signature: {name!r}: {error.message}{meant}") from None


def _named(part: str) -> tuple[str, str]:
    """`rows=i32` as its name and the rest; the name is empty where there is none."""
    field, equals, value = (piece.strip() for piece in part.partition("="))
    return (field, value) if equals and field.isidentifier() else ("", part)


def _struct(parts: list[str], cls: Any, name: str, function: KernelFunction) -> Parameter:
    """`Rows(data=*fp32:16, stride=i32)`, or without names in order; fields left out take their default."""
    given: dict[str, str] = {}
    for i, part in enumerate(parts):
        field, value = _named(part)
        if not field:
            if i >= len(cls._fields):
                raise errors.UserError(f"signature: {name!r}: expected at most {len(cls._fields)} fields of"
                                       f" {cls.__name__}, got {len(parts)}")  # fmt: skip
            field = cls._fields[i]
        if field not in cls._fields:
            near = errors.near_match(field, cls._fields)
            raise errors.UserError(f"signature: {name!r}: {cls.__name__} has no field {field!r}"
                                   + (f"; did you mean {near!r}?" if near else ""))  # fmt: skip
        if field in given:
            raise errors.UserError(f"signature: {name!r}: field {field!r} is given twice")
        given[field] = value
    items = []
    for field, known in zip(cls._fields, constexpr_fields(cls), strict=True):
        if field not in given and field not in cls._field_defaults:
            raise errors.UserError(f"signature: {name!r}: expected a type or a value for field {field!r}, got none")
        annotated = _class(annotation_of(cls, field), function)
        item = (_item(given[field], f"{name}.{field}", function, annotated) if field in given
                else _constant(cls._field_defaults[field], f"{name}.{field}"))  # fmt: skip
        if known and _is_runtime(item):
            raise errors.UserError(f"signature: expected a value for {f'{name}.{field}'!r} (because it is constexpr),"
                                   f" got {given[field]!r}")  # fmt: skip
        items.append(item)
    return join_parameters(name, tuple(items), cls._fields, cls)


def _constant(value: Any, name: str) -> Parameter:
    """A constexpr parameter with this value of the host."""
    cls = class_of(value)
    if cls is None:
        return Parameter(name, "constexpr", value=value)
    items = (_constant(item, f"{name}.{field}") for field, item in zip(cls._fields, value, strict=True))
    return join_parameters(name, tuple(items), cls._fields, cls)


def _annotation(parameter: Any) -> Any:
    return None if parameter.is_constexpr else parameter.annotation


def _class(annotation: Any, function: KernelFunction) -> Any:
    """The struct class that an annotation is or names; None for any other annotation."""
    if isinstance(annotation, str):
        first, *path = annotation.strip("\"' ").split(".")
        found = function.lookup(first) if first.isidentifier() else None
        annotation = found.value if found is not None else None
        for name in path:
            annotation = getattr(annotation, name, None)
    return annotation if is_struct(annotation) else None

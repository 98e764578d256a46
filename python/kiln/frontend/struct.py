"""Structs: arrays and numbers that belong together, passed as one argument of a kernel, with their own methods.

    @kiln.struct
    class Rows:
        data: Any                                  # arrays, numbers, None, tuples, other structs
        stride: Any
        columns: Any
        FULL: kl.constexpr = False                 # known while compiling, on the host and in kernels

        @kiln.jit
        def load(self, row, BLOCK: kl.constexpr):  # called in kernels, rows.load(0, 128)
            at = kl.arange(0, BLOCK)
            return kl.load(self.data + row * self.stride + at, mask=None if self.FULL else at < self.columns)

        @property
        @kiln.jit
        def bytes(self):                           # read in kernels, and on the host, where Python computes it
            return self.stride * 4

    copy[grid](Rows(x, 128, 100), Rows(y, 128, 100))

A struct is a named tuple: its fields are immutable, it is compared and pickled by its fields, and a launch flattens it
without running any Python. In a kernel, `Rows(pointer, 128, n)` makes one and `rows._replace(columns=n)` another. A
`typing.NamedTuple` that has jit methods or constexpr fields is a struct too.
"""

from __future__ import annotations

import collections
import functools
import keyword
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kiln.errors import CompilationError, UsageError, near_match
from kiln.frontend.function import BoundFunction, KernelFunction, is_constexpr_annotation

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    from kiln.language import values
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda decorator: decorator


MARK = "__kiln_struct__"
"""Attribute of the classes that `struct` makes: for each field, whether it is a constexpr."""

PLAIN = "__kiln_plain_struct__"
"""Attribute of those whose instances are determined by their fields: after a launch, they are made without Python."""

# Methods that construct a named tuple from its fields and must not be overridden.
_RESERVED = ("__init__", "__new__", "__post_init__", "__slots__", "__getattr__", "__getattribute__", "__setattr__")
_IGNORED = ("__dict__", "__weakref__", "__annotations__", "__annotate_func__", "__annotate__", "__module__",
            "__qualname__", "__firstlineno__", "__static_attributes__", "__annotations_cache__",
            "__conditional_annotations__")  # fmt: skip


@dataclass_transform(frozen_default=True)
def struct(cls: Any) -> Any:
    """Makes a class a struct: a named tuple of its annotated fields that kernels take as one argument.

    Fields are written `name: Any`, or `name: Any = default`; a field annotated `kl.constexpr` is known at compile time.
    Kernels can call methods decorated with `@kiln.jit`, and read properties with `@property` above `@kiln.jit`; other
    methods are for the host only.

    >>> @kiln.struct
    ... class Interval:
    ...     low: Any
    ...     high: Any = 1.0
    >>> Interval(0.0)
    Interval(low=0.0, high=1.0)
    """
    if not isinstance(cls, type):
        raise UsageError(f"struct: expected a class, got {cls!r}", "write @kiln.struct above a class")
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        setattr(cls, MARK, _constexpr_of(cls))  # a named tuple already
        return cls
    name = cls.__name__
    if cls.__bases__ != (object,):
        bases = ", ".join(base.__name__ for base in cls.__bases__)
        raise UsageError(f"struct {name}: expected a class without bases (because it becomes a named tuple), got"
                         f" {bases}", "give it a field that holds the other struct")  # fmt: skip
    for reserved in _RESERVED:
        if reserved in vars(cls):
            hint = "write a @classmethod that computes the fields" if "init" in reserved or "new" in reserved else None
            raise UsageError(f"struct {name}: expected no {reserved} (because its fields are all that it is)", hint)
    made: Any = _named_tuple(cls)
    for key, value in vars(cls).items():
        if key not in _IGNORED and key not in made._fields:
            if isinstance(value, property) and isinstance(value.fget, KernelFunction):
                value = JitProperty(value.fget)
            setattr(made, key, value)
    setattr(made, MARK, _constexpr_of(made))
    setattr(made, PLAIN, True)
    return made


def _named_tuple(cls: Any) -> Any:
    """The named tuple of a class's annotated names."""
    name = cls.__name__
    fields = dict(getattr(cls, "__annotations__", {}))
    if not fields:
        raise UsageError(f"struct {name}: expected fields, got none", "annotate them: data: Any")
    defaults = []
    for field in fields:
        if field.startswith("_") or keyword.iskeyword(field):
            raise UsageError(f"struct {name}: expected the name of a field, got {field!r}", "give it another name")
        if field in vars(cls):
            defaults.append(vars(cls)[field])
        elif defaults:
            raise UsageError(f"struct {name}: expected a default for {field} (because the field before it has one)")
    made: Any = collections.namedtuple(name, list(fields), defaults=defaults, module=cls.__module__)  # type: ignore[misc]
    made.__qualname__, made.__annotations__ = cls.__qualname__, fields
    return made


class JitProperty(property):
    """A property whose function is a jit function: kernels compile it; the host runs it as Python."""

    def __init__(self, function: KernelFunction):
        super().__init__(function.fn, doc=function.__doc__)
        self.function = function


# ---- the contents of a class -----------------------------------------------------------------------------------------
def is_struct(cls: Any) -> bool:
    """Whether `cls` is a struct."""
    return is_named_tuple(cls) and (MARK in vars(cls) or _has_parts_of_one(cls))


def is_named_tuple(cls: Any) -> bool:
    """Whether kernels may call `cls` to make a named tuple: a struct, or any named tuple class."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields") and cls is not BoundFunction


@functools.cache
def _has_parts_of_one(cls: Any) -> bool:
    return any(_constexpr_of(cls)) or next(functions_of(cls), None) is not None


def class_of(value: Any) -> Any:
    """The class of a struct on the host; None for any other value."""
    return type(value) if is_struct(type(value)) else None


def _constexpr_of(cls: Any) -> tuple[bool, ...]:
    return tuple(is_constexpr_annotation(annotation_of(cls, field)) for field in cls._fields)


def annotation_of(cls: Any, field: str) -> Any:
    """What a field is annotated with: an object, or its text."""
    for base in cls.__mro__:
        found = getattr(base, "__annotations__", {}).get(field)
        if found is not None:
            return getattr(found, "__forward_arg__", found)  # as typing.NamedTuple keeps texts
    return None


def constexpr_fields(cls: Any) -> tuple[bool, ...]:
    """For each field, whether it is known at compile time."""
    return vars(cls).get(MARK) or _constexpr_of(cls)


def members_of(cls: Any) -> Iterator[tuple[str, KernelFunction]]:
    """The jit functions of a class, by name."""
    for base in cls.__mro__:
        if base is tuple:
            return
        for name, value in vars(base).items():
            function = _jit_function(value)
            if function is not None:
                yield name, function


def functions_of(cls: Any) -> Iterator[KernelFunction]:
    """The jit functions of a class: methods, static methods, properties."""
    return (function for _, function in members_of(cls))


def _jit_function(value: Any) -> KernelFunction | None:
    if isinstance(value, staticmethod):
        value = value.__func__
    if isinstance(value, property):
        value = value.function if isinstance(value, JitProperty) else value.fget
    return value if isinstance(value, KernelFunction) else None


class LaunchFlags(NamedTuple):
    """What the launcher asks of a struct, by field."""

    constexpr: tuple[bool, ...]
    strides: tuple[bool, ...]  #: methods compute strides of descriptors from it


def launch_flags(cls: Any) -> LaunchFlags | None:
    """None for a named tuple that is not a struct."""
    if not is_struct(cls):
        return None
    from kiln.frontend.strides import descriptor_strides

    strides = {field for function in functions_of(cls) for field in descriptor_strides(function).fields}
    return LaunchFlags(constexpr_fields(cls), tuple(field in strides for field in cls._fields))


def describe_class(cls: Any) -> str:
    """A text that is the same in every process for the same fields; the functions have their own digests."""
    fields = zip(cls._fields, constexpr_fields(cls), strict=True)
    written = ",".join(f"{field}{':constexpr' * known}" for field, known in fields)
    return f"{cls.__module__}.{cls.__qualname__}({written})"


# ---- in kernels ------------------------------------------------------------------------------------------------------
def of_host(value: Any, items: Sequence[Any]) -> values.tuple:
    """A tuple of the host as a kernel's tuple, with these values as its items."""
    from kiln.language import values

    return values.tuple(items, getattr(value, "_fields", None), class_of(value))


def as_argument(value: Any) -> Any:
    """The value a parameter is bound to. A call inside a kernel passes each value unchanged, whether or not the
    parameter is annotated `kl.constexpr` (as in Triton; public kernels rely on it): an operation that needs a constant
    raises the error itself."""
    from kiln.language import types, values

    if isinstance(value, (bool, int, float, str, type(None), types.type_, KernelFunction)):
        value = values.constexpr(value)
    elif isinstance(value, (tuple, list)) and not isinstance(value, BoundFunction):
        value = of_host(value, [as_argument(item) for item in value])
    return value


def construct(cls: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> values.tuple:
    """`Rows(pointer, stride, n)` in a kernel."""
    name, fields = cls.__name__, cls._fields
    shown = f"{name}({', '.join(fields)})"
    if len(args) > len(fields):
        raise CompilationError(f"expected at most {len(fields)} field{'s' * (len(fields) != 1)} of {shown}, got"
                               f" {len(args)}")  # fmt: skip
    given = dict(zip(fields, args, strict=False))
    for key, value in kwargs.items():
        _check_field(cls, key)
        if key in given:
            raise CompilationError(f"field {key} of {name} is given twice", argument=key)
        given[key] = value
    missing = [field for field in fields if field not in given and field not in cls._field_defaults]
    if missing:
        raise CompilationError(f"expected {len(missing)} more field{'s' * (len(missing) > 1)} of {shown}, got none for"
                               f" {', '.join(missing)}")  # fmt: skip
    from kiln.language import values

    items = [given[field] if field in given else as_argument(cls._field_defaults[field]) for field in fields]
    _check_constexpr(cls, items)
    return values.tuple(items, fields, cls if is_struct(cls) else None)


def _replace(value: values.tuple, changes: dict[str, Any]) -> values.tuple:
    for key in changes:
        _check_field(value.cls, key)
    fields = value.fields or []
    items = [as_argument(changes.get(field, item)) for field, item in zip(fields, value.values, strict=True)]
    _check_constexpr(value.cls, items)
    return value.like(items)


def _check_field(cls: Any, name: str) -> None:
    if name not in cls._fields:
        match = near_match(name, cls._fields)
        raise CompilationError(
            f"{cls.__name__} has no field {name}",
            hint=f"did you mean {match}?" if match else f"its fields are {', '.join(cls._fields)}",
            argument=name,
        )


def _check_constexpr(cls: Any, items: Sequence[Any]) -> None:
    from kiln.language import semantic, values

    for field, known, item in zip(cls._fields, constexpr_fields(cls), items, strict=True):
        if known and values.flatten(item):
            raise CompilationError(
                f"expected a constexpr for field {field} of {cls.__name__} (because it is annotated so), got"
                f" {semantic.describe(item)}",
                hint=f"annotate what it comes from with kl.constexpr, or {field} with Any",
                argument=field,
            )


def member(value: values.tuple, name: str) -> Any:
    """`value.name`: a field, a method, a property or a constant of the class. AttributeError if there is none."""
    import inspect

    from kiln.language import types, values

    cls = value.cls
    if name in (value.fields or ()):
        return value.values[(value.fields or []).index(name)]
    if name == "_replace":
        return Replace(value)
    found = inspect.getattr_static(cls, name) if not name.startswith("__") else None
    function = _jit_function(found)
    if function is not None:
        if isinstance(found, property):
            return function(value)
        return function if isinstance(found, staticmethod) else BoundFunction(function, value)
    if isinstance(found, (values.constexpr, types.type_)):
        return found
    if found is None or name in dir(tuple) or name.startswith("_"):
        raise AttributeError(name)
    if isinstance(found, property):
        raise CompilationError(
            f"expected a property of a jit function (because only those are compiled), got {name} of {cls.__name__}",
            hint="put @kiln.jit between @property and def",
        )
    if isinstance(found, (staticmethod, classmethod)) or callable(found):
        raise CompilationError(
            f"expected a jit function (because only those are compiled), got {name}, a Python method of {cls.__name__}",
            hint=f"decorate {name} with @kiln.jit",
        )
    raise CompilationError(
        f"expected a constexpr (because a kernel is compiled once and a later change would go unnoticed), got {name} of"
        f" {cls.__name__}, a Python {type(found).__name__}",
        hint=f"write {name} = kl.constexpr({found!r})" if isinstance(found, (bool, int, float, str)) else None,
    )


def member_names(cls: Any) -> list[str]:
    """What a kernel may read of a struct, for hints."""
    return [*cls._fields, *(name for name, _ in members_of(cls))]


class Replace:
    """`value._replace`: called with the fields that change."""

    __kiln_builtin__ = True
    __name__ = "_replace"
    __module__ = "kiln.language"

    def __init__(self, value: values.tuple):
        self.value = value

    def __call__(self, **changes: Any) -> values.tuple:
        return _replace(self.value, changes)

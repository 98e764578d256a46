"""A captured Python function: its parameters, its source, its references to the outside, and its cache key.

Decorating is cheap: it only keeps the file; source and syntax tree are read when first needed. Only things whose
meaning cannot change are captured from outside: constexpr globals, jit functions, dtypes, builtins of the language and
modules.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kiln.frontend import identity as identity  # first: it reads the timestamps of all files
from kiln.frontend import source as source_text

if TYPE_CHECKING:
    import ast

_MISSING = object()
_EMPTY: Any = _MISSING
_PARSE_LOCK = threading.RLock()


def _renew_lock() -> None:
    """A forked child may lack the lock's holder, so it gets a new lock; the guarded data is complete or absent."""
    global _PARSE_LOCK
    _PARSE_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class lazy:
    """An attribute computed when first read; two threads may both compute it. Unlike this, `functools.cached_property`
    of Python 3.10 and 3.11 holds a lock for its whole class, which a forked child would inherit."""

    def __init__(self, compute: Callable[[Any], Any]):
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


class FunctionParameter(NamedTuple):
    """One parameter of a kernel function, as written."""

    index: int  # type: ignore[assignment]
    name: str
    annotation: Any
    default: Any
    is_constexpr: bool
    do_not_specialize: bool = False
    do_not_specialize_on_alignment: bool = False
    kind: str = "positional"
    """positional, keyword (only by keyword) or variadic (*args)."""

    @property
    def has_default(self) -> bool:
        return self.default is not _EMPTY

    @property
    def is_const(self) -> bool:
        """Whether it is annotated `kl.const`: the kernel does not write through it."""
        annotation = self.annotation
        if isinstance(annotation, str):
            return annotation.strip("\"' ").rsplit(".", 1)[-1] == "const"
        return getattr(annotation, "__name__", None) == "const"

    @property
    def annotation_type(self) -> str:
        """The annotation as the name of a type ("i64", "*fp32"); empty if it does not name one."""
        annotation = self.annotation
        if annotation is None or self.is_constexpr:
            return ""
        text = annotation if isinstance(annotation, str) else getattr(annotation, "name", "")
        return _ANNOTATIONS.get(str(text).rsplit(".", 1)[-1], "")


_ANNOTATIONS = {
    **{f"int{n}": f"i{n}" for n in (1, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    **{f"i{n}": f"i{n}" for n in (1, 8, 16, 32, 64)},
    **{f"u{n}": f"u{n}" for n in (8, 16, 32, 64)},
    "u1": "i1",
    "bool": "i1",
    "float16": "fp16", "fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16",
    "float32": "fp32", "fp32": "fp32", "float64": "fp64", "fp64": "fp64",
}  # fmt: skip


class Capture(NamedTuple):
    """Something a function takes from outside itself, and its origin, so that changes can be detected."""

    name: str
    value: Any
    holder: Any
    """The namespace (dict), closure cell or module it was read from."""

    def current(self) -> Any:
        holder = self.holder
        if isinstance(holder, dict):
            return holder.get(self.name, _MISSING)
        if isinstance(holder, ModuleType):
            return getattr(holder, self.name, _MISSING)
        try:
            return holder.cell_contents
        except ValueError:
            return _MISSING

    def is_current(self) -> bool:
        value = self.current()
        if value is self.value:
            return True
        old, new = plain(self.value), plain(value)
        return type(old) is type(new) and isinstance(old, (bool, int, float, str, tuple)) and old == new


class KernelFunction:
    """A Python function written in the language of kernels. `kiln.jit` makes a subclass that can be launched."""

    strict = True
    """Whether an obvious slip that is valid code is an error; otherwise it is a warning."""

    def __init__(
        self,
        fn: FunctionType,
        *,
        do_not_specialize: Any = (),
        do_not_specialize_on_alignment: Any = (),
        noinline: bool = False,
        source: str | None = None,
    ):
        if not isinstance(fn, FunctionType):
            from kiln.errors import UsageError

            got = f"the class {fn.__name__}" if isinstance(fn, type) else f"a value of type {type(fn).__name__}"
            raise UsageError(f"expected a Python function to compile, got {got}")
        if fn.__name__ == "<lambda>":
            from kiln.errors import UsageError

            raise UsageError(
                "expected a function with a def to compile, got a lambda",
                hint="write it with def and decorate it with @kiln.jit; only grids may be lambdas",
            )
        self.fn = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.noinline = noinline
        self._do_not_specialize = tuple(do_not_specialize or ())
        self._do_not_specialize_on_alignment = tuple(do_not_specialize_on_alignment or ())
        self._snapshot: source_text.Snapshot | None = None
        self._reach: Reach | None = None
        if source is not None:
            import textwrap

            text = textwrap.dedent(source).strip("\n")
            self._found = source_text.Source(fn.__code__.co_filename, fn.__code__.co_firstlineno, text)
        elif source_text.is_volatile(fn):
            self._found = source_text.find_volatile(fn, _frame_outside())
        else:
            self._snapshot = source_text.remember(fn)

    # -- what was written ------------------------------------------------------------------

    @lazy
    def _found(self) -> source_text.Source | None:
        return source_text.find(self.fn, self._snapshot)

    @property
    def source(self) -> source_text.Source:
        """The text of the definition; if it cannot be found, an error with a remedy."""
        found = self._found
        if found is None:
            from kiln.errors import CompilationError, calling_expression

            error = CompilationError(
                f"the source of {self.__name__} cannot be found (defined in {self.fn.__code__.co_filename}, line"
                f" {self.fn.__code__.co_firstlineno})",
                hint="code that was piped in or generated needs a file, a notebook cell, or its text:"
                " @kiln.jit(source=text)",
            )
            place = calling_expression()
            raise error if place is None else error.at(place)
        return found

    @lazy
    def tree(self) -> ast.FunctionDef:
        """The syntax tree, with the lines and columns of the file."""
        import ast

        with _PARSE_LOCK:
            body = self.source.parse().body
            definition = body[0]
            if not isinstance(definition, ast.FunctionDef):
                from kiln.errors import CompilationError, SourceRange

                line = definition.lineno
                asynchronous = isinstance(definition, ast.AsyncFunctionDef)
                follows = any(isinstance(later, ast.FunctionDef) for later in body[1:])
                raise CompilationError(
                    f"expected a plain function, got {'an async one' if asynchronous else 'something else'}",
                    hint="give the text from the function's decorators or its def on"
                    if follows
                    else "write it with def",
                ).at(
                    SourceRange(
                        self.source.file,
                        line,
                        definition.col_offset + 1,
                        line,
                        0,
                        self.__name__,
                        self.source.line(line),
                    )
                )
            return definition

    @lazy
    def params(self) -> list[FunctionParameter]:
        """The parameters in order: positional, *args, keyword-only."""
        code = self.fn.__code__
        names = code.co_varnames
        positional = list(names[: code.co_argcount])
        keyword = list(names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
        variadic = [names[code.co_argcount + code.co_kwonlyargcount]] if code.co_flags & 0x04 else []
        defaults = self.fn.__defaults__ or ()
        annotations = self.fn.__annotations__
        by_name = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=False))
        by_name.update(self.fn.__kwdefaults__ or {})
        result = []
        kinds = [(n, "positional") for n in positional] + [(n, "variadic") for n in variadic]
        for index, (name, kind) in enumerate(kinds + [(n, "keyword") for n in keyword]):
            annotation = annotations.get(name)
            result.append(
                FunctionParameter(
                    index,
                    name,
                    annotation,
                    by_name.get(name, _EMPTY),
                    is_constexpr_annotation(annotation),
                    name in self._do_not_specialize or index in self._do_not_specialize,
                    name in self._do_not_specialize_on_alignment or index in self._do_not_specialize_on_alignment,
                    kind,
                )
            )
        return result

    @lazy
    def arg_names(self) -> list[str]:
        return [parameter.name for parameter in self.params]

    # -- what it refers to -----------------------------------------------------------------

    def lookup(self, name: str) -> Capture | None:
        """Looks up a name that is not local: in closure cells, then in globals."""
        code = self.fn.__code__
        if name in code.co_freevars:
            cell = (self.fn.__closure__ or ())[code.co_freevars.index(name)]
            try:
                return Capture(name, cell.cell_contents, cell)
            except ValueError:
                return None
        value = self.fn.__globals__.get(name, _MISSING)
        return None if value is _MISSING else Capture(name, value, self.fn.__globals__)

    def annotated_constexpr(self, name: str) -> bool:
        """Whether the module declares the global as `NAME: kl.constexpr = …`."""
        names = self.fn.__globals__
        annotations = names.get("__annotations__")
        if annotations is None and "__annotate__" in names:  # from Python 3.14 on, made when asked for
            annotations = getattr(sys.modules.get(str(names.get("__name__"))), "__annotations__", None)
        return is_constexpr_annotation((annotations or {}).get(name))

    def _references(self) -> Iterator[tuple[str, Capture]]:
        """Everything outside the function that its body can name, including attributes of modules, with the name. This
        searches the text, not the syntax tree: it also finds names in comments, but costs less than parsing."""
        seen: set[tuple[str, int]] = set()
        for parts in self._chains:
            capture = self.lookup(parts[0])
            for attr in parts[1:]:
                if capture is None or not isinstance(capture.value, ModuleType):
                    break
                value = getattr(capture.value, attr, _MISSING)
                capture = None if value is _MISSING else Capture(attr, value, capture.value)
            if capture is None or isinstance(capture.value, ModuleType):
                continue
            key = (capture.name, id(capture.holder))
            if key not in seen:
                seen.add(key)
                yield ".".join(parts), capture

    @lazy
    def _chains(self) -> list[list[str]]:
        """The non-local names in its text, with the attributes that follow them."""
        local = set(self.fn.__code__.co_varnames)
        chains = dict.fromkeys(_NAMES.findall(_normal(self.reach_text)))
        split = [_PLAIN.findall(_COMMENT.sub("", chain)) if "." in chain else [chain] for chain in chains]
        return [parts for parts in split if parts[0] not in local]

    @lazy
    def reach_text(self) -> str:
        """A text that contains the definition: its own, possibly with what follows it in the file."""
        text = source_text.reach(self.fn, self._snapshot) if "_found" not in self.__dict__ else None
        return self.source.text if text is None else text

    @property
    def places(self) -> list[str]:
        """The positions, as FILE:LINE, of the functions that it reaches."""
        codes = [function.fn.__code__ for function in self.reach.functions]
        return [f"{code.co_filename}:{code.co_firstlineno}" for code in codes]

    @property
    def captures(self) -> tuple[Capture, ...]:
        """What the function and the jit functions it calls capture from outside, as of the current key."""
        return self.reach.captures

    def is_current(self) -> bool:
        """Whether nothing captured has changed since the cache key was computed. Cheap, as each launch asks."""
        known = self._reach
        if known is None:
            return False
        for capture in known.captures:
            if not capture.is_current():
                return False
        return True

    @property
    def cache_key(self) -> str:
        """A digest of the source, of the jit functions it calls and of constexpr globals; updated as they change."""
        return self.reach.key

    @property
    def reach(self) -> Reach:
        """The function and all it reaches; updated as they change."""
        if self._reach is None or not self.is_current():
            with _PARSE_LOCK:
                self._reach = _reach_of(self)
        return self._reach

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__module__}.{self.__qualname__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Makes it a method when it is an attribute of a value of the language: the value is the first argument."""
        return self if instance is None else BoundFunction(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Emits the call, inside a kernel that is being compiled; an error elsewhere."""
        emission = sys.modules.get("kiln.frontend.emission")
        active = emission.active() if emission is not None else None
        if active is None:
            from kiln.errors import UsageError

            raise UsageError(
                f"{self.__name__} is a jit function: it cannot be called like a Python function",
                hint=f"launch it as a kernel, {self.__name__}[grid](...), or call it inside another jit function",
            )
        return active.call(self, args, kwargs)


class BoundFunction(NamedTuple):
    """A jit function read as a method of a value."""

    function: KernelFunction
    instance: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)

    def __getitem__(self, grid: Any) -> Any:
        from kiln.errors import UsageError

        name, owner = self.function.__name__, type(self.instance).__name__
        raise UsageError(
            f"expected a kernel before a grid, got {name} as a method of an object of class {owner}",
            hint=f"define {name} outside of the class, or put @staticmethod above @kiln.jit",
        )


def jit(fn: Callable | None = None, **options: Any) -> Any:
    """Marks a library function of the language; for kernels that can be launched, see `kiln.jit`."""
    if fn is None:
        return lambda inner: KernelFunction(inner, **options)
    return KernelFunction(fn, **options)  # type: ignore[arg-type]


def constexpr_function(fn: Callable) -> Callable:
    """Marks a plain Python function that kernels may call at compile time, with arguments known then."""
    fn.__kiln_constexpr_function__ = True  # type: ignore[attr-defined]
    return fn


def is_constexpr_annotation(annotation: Any) -> bool:
    """`kl.constexpr`, or its name where annotations are strings."""
    if annotation is None:
        return False
    if isinstance(annotation, str):
        return annotation.strip("\"' ").rsplit(".", 1)[-1] == "constexpr"
    return getattr(annotation, "__name__", None) == "constexpr"


def plain(value: Any) -> Any:
    """A constexpr's value; anything else unchanged."""
    return value.value if type(value).__name__ == "constexpr" else value


def _is_captured_data(value: Any) -> bool:
    return (
        type(value).__name__ == "constexpr"
        or hasattr(value, "primitive_bitwidth")
        or getattr(value, "__kiln_constexpr_function__", False) is True
    )


# Matches a name, or several joined by dots. It also matches words in comments and strings.
_BETWEEN = r"(?:[\s\\]|\#[^\n]*\n)*"
_PLAIN = re.compile(r"[^\W\d]\w*")
_NAMES = re.compile(rf"[^\W\d]\w*(?:{_BETWEEN}\.{_BETWEEN}[^\W\d]\w*)*")
_COMMENT = re.compile(r"#[^\n]*\n")


def _normal(text: str) -> str:
    """The text with its names normalised as Python does."""
    if text.isascii():
        return text
    import unicodedata

    return text + "\n" + unicodedata.normalize("NFKC", text)


class Reach(NamedTuple):
    """A function with all the jit functions it reaches, and what they capture from outside."""

    functions: tuple[KernelFunction, ...]
    captures: tuple[Capture, ...]
    """Captures whose changes are detected."""
    fields: tuple[tuple[str, str], ...]
    """The meaning of the functions, by name: their text, their parameters, their captures."""
    inexact: tuple[str, ...]
    """What has no text that is the same in every process; if there is any, the fields hold for this process only."""
    key: str

    def names(self, *words: str) -> bool:
        """Whether the code of any of the functions names one of these."""
        return any(word in each.fn.__code__.co_names for each in self.functions for word in words)


def _reach_of(start: KernelFunction) -> Reach:
    from kiln.errors import KilnError
    from kiln.frontend.struct import is_named_tuple

    spelling = Spelling([start])
    captures: list[Capture] = []
    fields: list[tuple[str, str]] = []
    for function in spelling.functions:  # which grows
        label = function.__qualname__
        used = set(_names_of(function.fn.__code__))
        try:
            text = function.reach_text
        except KilnError:
            if function is start:
                raise
            # Calling it raises the error; it may be named in a comment only.
            spelling.inexact.append(f"{label}, whose source cannot be found")
            continue
        fields.append((f"source of {label}", text))
        fields.append((f"parameters of {label}", _head(function, spelling)))
        for name, capture in function._references():
            value = capture.value
            annotated = function.annotated_constexpr(capture.name)
            if annotated or isinstance(value, KernelFunction) or _is_captured_data(value) or is_named_tuple(value):
                captures.append(capture)
                text = spelling.of(plain(value) if annotated else value)
                fields.append((f"{name} of {label}", f"constexpr {text}" if annotated else text))
            elif capture.name in used:
                fields.append((f"{name} of {label}", spelling.of(value, captured=True)))
            else:  # named in a comment, an annotation or code that is never generated
                fields.append((f"{name} of {label}", _name_of(value)))
    from kiln import _kiln

    key = _kiln.digest(repr(fields).encode("utf-8", "surrogatepass"))
    return Reach(tuple(spelling.functions), tuple(captures), tuple(fields), tuple(spelling.inexact), key)


def _head(function: KernelFunction, spelling: Spelling) -> str:
    """The facts about a function besides its text."""
    code = function.fn.__code__
    parameters = [
        (
            p.name, p.kind, p.is_constexpr, p.is_const, p.annotation_type, p.do_not_specialize,
            p.do_not_specialize_on_alignment, spelling.of(p.default) if p.has_default else "",
        )
        for p in function.params
    ]  # fmt: skip
    return repr((code.co_name, function.__name__, function.noinline, parameters))


def _names_of(code: CodeType) -> Iterator[str]:
    """Names of globals, variables of enclosing functions and attributes that the code uses."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


# Modules that mean the same in every process with the same Kiln.
_OURS = ("kiln.language", "kiln.frontend", "kiln.as_triton")
_PURE_MODULES = ("math", "operator", "builtins")
# Python builtins that a constexpr function may use: their results depend on nothing but their arguments.
_PURE_BUILTINS = frozenset(
    "abs all any bin bool bytes callable chr complex dict divmod enumerate filter float format getattr hasattr hex int"
    " isinstance issubclass iter len list map max min next oct ord pow print range repr reversed round slice sorted str"
    " sum tuple type zip ArithmeticError AssertionError Exception KeyError NotImplementedError RuntimeError TypeError"
    " ValueError ZeroDivisionError True False None".split()
)


def _is_ours(value: Any) -> bool:
    module = str(getattr(value, "__module__", ""))
    return module in _PURE_MODULES or any(module == ours or module.startswith(ours + ".") for ours in _OURS)


def _name_of(value: Any) -> str:
    kind = type(value)
    name = getattr(value, "__qualname__", "") if isinstance(value, type) or callable(value) else ""
    module = getattr(value, "__module__", "") if name else ""
    return f"{kind.__module__}.{kind.__qualname__} {module}.{name}"


class Spelling:
    """Turns values into texts that are the same in every process for equal values; records values that have none."""

    def __init__(self, functions: list[KernelFunction]):
        self.functions = functions
        """The jit functions met so far, in order; texts refer to them by index."""
        self.inexact: list[str] = []

    def of(self, value: Any, captured: bool = False) -> str:
        """`captured`: what kernels cannot capture, and refuse, is identified by its type only."""
        kind = type(value)
        if kind in (bool, int, float, complex, str, bytes, type(None)):
            return f"{kind.__name__} {value!r}"
        if isinstance(value, KernelFunction):
            if not any(value is known for known in self.functions):
                self.functions.append(value)
            number = next(i for i, known in enumerate(self.functions) if known is value)
            return f"jit {number} {value.__qualname__}"
        if isinstance(value, BoundFunction):
            return f"method {self.of(value.function)} of {self.of(value.instance)}"
        if kind.__module__ == "kiln.language.values" and kind.__name__ == "constexpr":
            return f"constexpr({self.of(value.value)})"
        if kind.__module__ == "kiln.language.values" and kind.__name__ == "tuple":
            return f"tuple {value.fields}({', '.join(map(self.of, value.values))})"
        if kind.__module__ == "kiln.language.types" and hasattr(value, "name"):
            return f"type {kind.__name__} {value.name} {getattr(value, 'address_space', '')}"
        if (kind.__module__, kind.__name__) == ("torch", "dtype"):
            return str(value)
        from kiln.frontend.struct import is_named_tuple, is_struct

        if is_named_tuple(value):
            return self._struct(value)
        if isinstance(value, (tuple, list)):
            if is_struct(kind):
                return f"{self._struct(kind)}({', '.join(map(self.of, value))})"
            if kind in (tuple, list) or hasattr(kind, "_fields"):
                named = f" {kind.__qualname__} {kind._fields}" if hasattr(kind, "_fields") else ""
                return f"{'list' if kind is list else 'tuple'}{named}({', '.join(map(self.of, value))})"
        elif isinstance(value, FunctionType) and not _is_ours(value):
            return self._plain_function(value)
        elif (isinstance(value, type) or callable(value)) and _is_ours(value) and hasattr(value, "__qualname__"):
            return f"{value.__module__}.{value.__qualname__}"
        elif captured and not isinstance(value, type) and not callable(value):
            return _name_of(value)
        self.inexact.append(f"a value of type {kind.__module__}.{kind.__qualname__}")
        return _name_of(value)

    def _struct(self, cls: Any) -> str:
        """A class of named tuples: its fields, their defaults, and its functions that kernels may call."""
        from kiln.frontend.struct import describe_class, members_of

        parts = [*cls._field_defaults.items(), *members_of(cls)]
        return f"struct {describe_class(cls)}({', '.join(f'{name}={self.of(part)}' for name, part in parts)})"

    def _plain_function(self, function: FunctionType, seen: tuple[FunctionType, ...] = ()) -> str:
        """A Python function identified by its behaviour, if its code and the names in it determine that."""
        text = [f"{function.__qualname__}:{source_text.fingerprint(function.__code__)}"]
        text += [self.of(value) for value in (function.__defaults__ or ())]
        text += [f"{name}={self.of(value)}" for name, value in sorted((function.__kwdefaults__ or {}).items())]
        codes = [function.__code__]
        for code in codes:  # which grows
            codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        import opcode

        imports = opcode.opmap["IMPORT_NAME"]
        if any(imports in code.co_code[::2] for code in codes):
            self.inexact.append(f"{function.__qualname__} imports as it runs")
        for name in dict.fromkeys(name for code in codes for name in code.co_names):
            if name in function.__globals__:
                text.append(f"{name}={self._used(name, function.__globals__[name], (*seen, function))}")
            elif hasattr(builtins, name) and name not in _PURE_BUILTINS:
                self.inexact.append(f"{function.__qualname__} uses {name}")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            text.append(f"{name}={self._used(name, _content(cell), (*seen, function))}")
        return "python " + repr(text)

    def _used(self, name: str, value: Any, seen: tuple[FunctionType, ...]) -> str:
        if isinstance(value, ModuleType):
            if value.__name__ not in _PURE_MODULES and not value.__name__.startswith(_OURS):
                self.inexact.append(f"module {value.__name__} of {name}")
            return f"module {value.__name__}"
        if isinstance(value, FunctionType) and not _is_ours(value):
            return "itself" if value in seen else self._plain_function(value, seen)
        return self.of(value)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _frame_outside() -> Any:
    """The nearest frame that is not Kiln's."""
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "kiln":
        frame = frame.f_back
    return frame

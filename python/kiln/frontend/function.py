"""A captured Python function: its parameters, source, what it refers to outside itself, and its cache key.

Decorating does next to nothing: it keeps the file; source and syntax tree are read when first needed. Only things that
cannot change meaning are captured from outside: constexpr globals, jit functions, dtypes, builtins of the language and
modules.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kiln.frontend import source as source_text

if TYPE_CHECKING:
    import ast

_MISSING = object()
_EMPTY: Any = _MISSING
_PARSE_LOCK = threading.RLock()


def _renew_lock() -> None:
    """In a forked child the holder may not exist; what it guards is either whole or absent."""
    global _PARSE_LOCK
    _PARSE_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class lazy:
    """An attribute computed when first read; two threads may both compute it. `functools.cached_property` holds a lock
    for its whole class in Python 3.10 and 3.11, which would outlive a fork."""

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
        """Whether it is annotated `kl.const`: what it points at is not written."""
        annotation = self.annotation
        if isinstance(annotation, str):
            return annotation.strip("\"' ").rsplit(".", 1)[-1] == "const"
        return getattr(annotation, "__name__", None) == "const"

    @property
    def annotation_type(self) -> str:
        """The annotation as the name of a type ("i64", "*fp32"), empty if it does not name one."""
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
    """Something a function takes from outside itself, and where from, so that a change can be noticed."""

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
        self._key: tuple[str, tuple[Capture, ...]] | None = None
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
        """The text of the definition; an error with a remedy if nobody knows it."""
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
            definition = self.source.parse().body[0]
            if not isinstance(definition, ast.FunctionDef):
                from kiln.errors import CompilationError, SourceRange

                line = definition.lineno
                asynchronous = isinstance(definition, ast.AsyncFunctionDef)
                raise CompilationError(
                    f"expected a plain function, got {'an async one' if asynchronous else 'something else'}",
                    hint="write it with def",
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
        """What a name that is not local means: a closure cell, then a global."""
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

    def _references(self) -> Iterator[Capture]:
        """Everything outside itself that the body can name, attributes of modules included."""
        import ast

        local = set(self.fn.__code__.co_varnames)
        seen: set[tuple[str, int]] = set()
        for node in ast.walk(self.tree):
            path: list[str] = []
            base: ast.AST = node
            while isinstance(base, ast.Attribute):
                path.insert(0, base.attr)
                base = base.value
            if not isinstance(base, ast.Name) or base.id in local:
                continue
            capture = self.lookup(base.id)
            for attr in path:
                if capture is None or not isinstance(capture.value, ModuleType):
                    break
                value = getattr(capture.value, attr, _MISSING)
                capture = None if value is _MISSING else Capture(attr, value, capture.value)
            if capture is None or isinstance(capture.value, ModuleType):
                continue
            key = (capture.name, id(capture.holder))
            if key not in seen:
                seen.add(key)
                yield capture

    def _collect(self, visited: dict[int, KernelFunction]) -> Iterator[tuple[KernelFunction, Capture]]:
        from kiln.frontend.struct import functions_of, is_struct

        visited[id(self)] = self
        for capture in self._references():
            value = capture.value
            function = value if isinstance(value, KernelFunction) else None
            if function is not None:
                yield self, capture
                if id(function) not in visited:
                    yield from function._collect(visited)
            elif _is_captured_data(value) or self.annotated_constexpr(capture.name):
                yield self, capture
            elif is_struct(value):
                yield self, capture
                for method in functions_of(value):
                    if id(method) not in visited:
                        yield from method._collect(visited)

    @property
    def captures(self) -> tuple[Capture, ...]:
        """What the function and the jit functions it calls take from outside, as of the current key."""
        return self._current_key()[1]

    def is_current(self) -> bool:
        """Whether nothing captured has changed since the cache key was computed: cheap, asked at each launch."""
        key = self._key
        if key is None:
            return False
        for capture in key[1]:
            if not capture.is_current():
                return False
        return True

    @property
    def cache_key(self) -> str:
        """Digest of the source, of the jit functions it calls and of the constexpr globals; follows their changes."""
        return self._current_key()[0]

    def _current_key(self) -> tuple[str, tuple[Capture, ...]]:
        if self._key is None or not self.is_current():
            import hashlib

            with _PARSE_LOCK:
                visited: dict[int, KernelFunction] = {}
                found = list(self._collect(visited))
                digest = hashlib.sha256()
                for function in visited.values():
                    digest.update(f"{function.__qualname__}\0{function.source.text}\0".encode())
                    digest.update(
                        repr([(p.name, p.is_constexpr, _stable(p.default)) for p in function.params]).encode()
                    )
                for owner, capture in found:
                    digest.update(f"{owner.__qualname__}.{capture.name}={_stable(capture.value)}\0".encode())
                self._key = (digest.hexdigest(), tuple(capture for _, capture in found))
        return self._key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__module__}.{self.__qualname__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As an attribute of a value of the language it is a method: the value becomes the first argument."""
        return self if instance is None else BoundFunction(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside a kernel that is being compiled: the call, emitted. Elsewhere an error."""
        emitter = sys.modules.get("kiln.frontend.emitter")
        active = emitter.active() if emitter is not None else None
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


def jit(fn: Callable | None = None, **options: Any) -> Any:
    """Marks a library function of the language; `kiln.jit` is the one with which kernels are launched."""
    if fn is None:
        return lambda inner: KernelFunction(inner, **options)
    return KernelFunction(fn, **options)  # type: ignore[arg-type]


def constexpr_function(fn: Callable) -> Callable:
    """Marks a plain Python function that kernels may call while compiling, with arguments known then."""
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
    """What a constexpr holds; anything else as it is."""
    return value.value if type(value).__name__ == "constexpr" else value


def _is_captured_data(value: Any) -> bool:
    return (
        type(value).__name__ == "constexpr"
        or hasattr(value, "primitive_bitwidth")
        or getattr(value, "__kiln_constexpr_function__", False) is True
    )


def _stable(value: Any) -> str:
    """Text that is the same in every process for the same value."""
    from kiln.frontend.struct import class_of, describe_class, is_struct

    value = plain(value)
    if isinstance(value, KernelFunction):
        return value.__qualname__
    if is_struct(value):
        return describe_class(value)
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        cls = class_of(value)
        return f"{describe_class(cls) if cls else ''}({','.join(map(_stable, value))})"
    if isinstance(value, FunctionType):
        return f"{value.__qualname__}:{source_text.fingerprint(value.__code__)}"
    return str(getattr(value, "name", None) or getattr(value, "__qualname__", None) or type(value).__qualname__)


def _frame_outside() -> Any:
    """The nearest frame that is not Kiln's."""
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "kiln":
        frame = frame.f_back
    return frame

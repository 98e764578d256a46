"""The shared base of the walk over one function: the current position, the meaning of names, errors with a position."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, SourceRange, UnsupportedSyntaxError
from kiln.frontend import scope as scopes
from kiln.frontend import struct as structs
from kiln.frontend import syntax
from kiln.frontend.arguments import argument_node
from kiln.frontend.function import BoundFunction, KernelFunction
from kiln.language import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from kiln.frontend.emitter import Emitter
    from kiln.frontend.range_loop import LoopCall


class Walker:
    """State of the walk over `function`, which is emitted at the builder's insertion point.

    caller  location of the call that this body replaces; None for a separate function
    """

    def __init__(
        self, emitter: Emitter, function: KernelFunction, arguments: dict[str, Any], caller: int | None = None
    ):
        self.emitter = emitter
        self.function = function
        self.caller = caller
        self.node: ast.AST | None = None
        self.scope: scopes.Scope = {**arguments, **dict.fromkeys(scopes.FLAGS, scopes.FALSE)}
        self.carried: list[set[str] | None] = []
        """For each enclosing loop, the names its next iteration reads; None for all."""
        code = function.fn.__code__
        self.locals = set(code.co_varnames) | set(code.co_cellvars)
        self.is_library = (function.__module__ or "").startswith("kiln.language")
        self.is_kernel = False
        self.test_hints: dict[str, str] = {}
        """The loop hints of the condition tested last."""
        self.settled: dict[str, ast.AST] = {}
        """Names whose plain number became a scalar by assignment, with the position."""
        self.constants: dict[str, tuple[ast.AST, Any]] = {}
        """Names annotated `kl.constexpr`, with the position and the value assigned there."""
        self.annotated: dict[str, ast.AST] = {}
        """Names annotated `kl.constexpr` that were assigned a run-time value, with the position."""
        self.returns: list[tuple[ast.Return, str]] = []
        """Each `return` met, with the type of its value, for the error if types differ."""
        self._locations: dict[ast.AST, int] = {}

    # -- walking -----------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        outer, self.node = self.node, node
        try:
            method = getattr(self, f"visit_{type(node).__name__}", None)
            if method is None:
                raise self.unsupported(node)
            return method(node)
        except CompilationError as error:
            if not error.frames:
                self.locate(error, node)
            raise
        except Exception:
            self.emitter.fault = self.emitter.fault or self.range(node)
            raise
        finally:
            self.node = outer

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Work on behalf of a node that is not itself visited: sets the position and locates errors."""
        outer, self.node = self.node, node
        try:
            yield
        except CompilationError as error:
            if not error.frames:
                self.locate(error, argument_node(node, None, error.argument))
            raise
        finally:
            self.node = outer

    def unsupported(self, node: ast.AST) -> CompilationError:
        what, hint = syntax.unsupported(node)
        return UnsupportedSyntaxError(f"{what} not supported in a kernel", hint=hint)

    # -- positions ---------------------------------------------------------------------------

    def location(self) -> int:
        """The builder's location of the current node, with the calls that led here."""
        node = self.node
        if node is None:
            return 0
        handle = self._locations.get(node)
        if handle is None:
            builder = self.emitter.builder
            line = getattr(node, "lineno", None)
            if line is None:
                return self._locations.get(self.function.tree, 0)
            where = self.range(node)
            handle = builder.name_loc(
                self.function.__name__,
                builder.file_loc(where.file, where.line, where.column, where.end_line, where.end_column),
            )
            if self.caller is not None:
                handle = builder.call_loc(handle, self.caller)
            self._locations[node] = handle
        return handle

    def range(self, node: ast.AST) -> SourceRange:
        """The source range of a node, for errors."""
        source = self.function.source
        line = getattr(node, "lineno", source.first_line)
        end_line = getattr(node, "end_lineno", None) or line
        column, end_column = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
        if isinstance(node, ast.FunctionDef):
            # The `def` line, not the whole body.
            end_line, end_column = line, column + len("def ") + len(node.name)
        text = source.line(line)
        # The parser's columns count UTF-8 bytes; errors show characters.
        if not text.isascii():
            column = len(text.encode()[:column].decode(errors="ignore"))
            end_column = len(source.line(end_line).encode()[:end_column].decode(errors="ignore"))
        return SourceRange(source.file, line, column + 1, end_line, end_column + 1, self.function.__name__, text)

    def locate(self, error: CompilationError, node: ast.AST) -> CompilationError:
        """Adds the position to an error, unless this function belongs to the language: then the caller's counts."""
        return error if self.is_library else error.at(self.range(node))

    def refuse_slip(self, error: CompilationError, meaning: str, node: ast.AST) -> None:
        """Fails the compile on an obvious slip; where it is valid (in Triton programs), warns with its meaning."""
        if self.function.strict:
            raise error
        text, code = f"{error.message}; {meaning}\nhint: {error.hint}", self.function.fn.__code__
        warnings.warn_explicit(text, UserWarning, code.co_filename, getattr(node, "lineno", 0))

    # -- names -------------------------------------------------------------------------------

    def value(self, obj: Any) -> Any:
        """Converts a Python object to a value of the language: data to constexpr, sequences to tuples."""
        if isinstance(obj, (bool, int, float, str, type(None))):
            return values.constexpr(obj)
        if isinstance(obj, BoundFunction):
            return obj
        if isinstance(obj, (tuple, list)):
            return structs.of_host(obj, [self.value(item) for item in obj])
        if isinstance(obj, values.constexpr) and isinstance(obj.value, (tuple, list, values.tuple)):
            return self.value(obj.value)
        return obj

    # -- what the parts offer each other -----------------------------------------------------

    if TYPE_CHECKING:

        def visit_block(self, statements: list[ast.stmt]) -> None: ...

        def fork(
            self,
            condition: int,
            then: Callable[[], None],
            orelse: Callable[[], None],
            nodes: tuple[ast.AST, ast.AST],
            labels: tuple[str, str] = ...,
        ) -> None: ...

        def guard(self, left: int, rest: Callable[[], None], nodes: tuple[ast.AST, ast.AST]) -> None: ...

        def assign(self, target: ast.expr, value: Any) -> None: ...

        def bind(self, target: ast.expr, value: Any) -> None: ...

        def check_constant(self, target: ast.AST, annotated: bool) -> None: ...

        def settle(self, value: Any) -> Any: ...

        def condition(self, node: ast.expr) -> bool | int: ...

        def truth(self, value: Any) -> bool: ...

        def elements(self, nodes: list[ast.expr]) -> list[Any]: ...

        def static_items(self, value: Any, node: ast.expr, hint: str | None = None) -> list[Any]: ...

        def loop_call(self, node: ast.Call) -> LoopCall | None: ...

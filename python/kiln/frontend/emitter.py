"""The module being emitted: ops, constants, regions and calls, placed at the source position being visited.

The language emits through `current()`; only the visitor moves the position. One emission belongs to one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, SourceRange, UserError

if TYPE_CHECKING:
    from kiln.frontend.calls import EmittedFunction
    from kiln.frontend.visitor import Visitor

_state = threading.local()


def active() -> Emitter | None:
    """The emitter of the kernel this thread is compiling, if it is compiling one."""
    return getattr(_state, "emitter", None)


def current() -> Emitter:
    """The emitter of the kernel this thread is compiling; an error outside a kernel."""
    emitter = active()
    if emitter is None:
        raise UserError(
            "functions of kiln.language work only inside a kernel\n"
            "hint: decorate the function that calls it with @kiln.jit and launch it, kernel[grid](...)"
        )
    return emitter


class Emitter:
    """One module under construction."""

    def __init__(self) -> None:
        from kiln._kiln import Builder

        self.builder = Builder()
        self.visitor: Visitor | None = None
        """Walks the function being emitted; says where we are."""
        self.functions: dict[Any, EmittedFunction] = {}
        """Private functions emitted so far, by function, argument types and constexprs."""
        self.chain: list[Any] = []
        """Functions being emitted, outermost first: what recursion is found with."""
        self.inlining = 0
        """Above 0, calls are emitted in place: inside the region of a reduce or scan."""
        self.fault: SourceRange | None = None
        """Where a failure that is no mistake of the user's happened."""
        self._symbols: set[str] = set()
        self._placed = -1

    @contextmanager
    def activate(self) -> Iterator[Emitter]:
        outer = active()
        _state.emitter = self
        try:
            yield self
        finally:
            _state.emitter = outer

    # -- ops ---------------------------------------------------------------------------------

    def place(self) -> None:
        """Tells the builder the current source position, if it moved."""
        handle = self.visitor.location() if self.visitor is not None else 0
        if handle != self._placed:
            self.builder.set_loc(handle)
            self._placed = handle

    def op(
        self,
        name: str,
        operands: Sequence[int] = (),
        result_types: Sequence[str] = (),
        attrs: dict[str, Any] | None = None,
        regions: Sequence[int] = (),
        segments: Sequence[int] | None = None,
    ) -> list[int]:
        """Any op: handles of its results. `segments` counts operands of ops with several optional groups."""
        self.place()
        return self.builder.create(
            name, list(operands), list(result_types), attrs or {}, list(regions),
            None if segments is None else list(segments),
        )  # fmt: skip

    def op1(
        self,
        name: str,
        operands: Sequence[int] = (),
        result_types: Sequence[str] = (),
        attrs: dict[str, Any] | None = None,
        regions: Sequence[int] = (),
        segments: Sequence[int] | None = None,
    ) -> int:
        """An op with one result."""
        return self.op(name, operands, result_types, attrs, regions, segments)[0]

    def constant(self, mlir_type: str, value: bool | int | float) -> int:
        """A scalar constant, or a tile of one value."""
        self.place()
        return self.builder.constant(mlir_type, value)

    def poison(self, mlir_type: str) -> int:
        """A value nobody reads: what a path that does not reach a use contributes."""
        return self.op1("ub.poison", [], [mlir_type], {"value": "#ub.poison"})

    def type_of(self, handle: int) -> str:
        return self.builder.type_of(handle)

    # -- regions -----------------------------------------------------------------------------

    def begin_region(self, argument_types: Sequence[str] = ()) -> list[int]:
        """Opens a region of one block; ops go there until `end_region`."""
        self.place()
        return self.builder.begin_region(list(argument_types))

    def end_region(self) -> int:
        return self.builder.end_region()

    def combine_region(self, fn: Any, element_types: Sequence[Any]) -> int:
        """The region of a reduce or scan: `fn` applied to two groups of scalars, ended by tile.yield."""
        from kiln.language import values

        types = list(element_types)
        handles = self.begin_region([ty.mlir for ty in types] * 2)
        arguments = [values.tensor(handle, ty) for handle, ty in zip(handles, types + types)]
        self.inlining += 1
        try:
            result = fn(*arguments)
        finally:
            self.inlining -= 1
        parts = list(result) if isinstance(result, (tuple, list, values.tuple)) else [result]
        operands = [self._combined(fn, part, ty, len(parts), types) for part, ty in zip(parts, types)]
        if len(parts) != len(types):
            self._combined(fn, None, types[0], len(parts), types)
        self.op("tile.yield", operands)
        return self.end_region()

    def _combined(self, fn: Any, part: Any, ty: Any, count: int, types: list[Any]) -> int:
        """One result of a combine function as a scalar of the type it must have."""
        from kiln.frontend.scope import public_name
        from kiln.language import semantic, values

        name = getattr(fn, "__name__", "the combine function")
        if count != len(types):
            raise CompilationError(
                f"expected {len(types)} value{'s' * (len(types) > 1)} from the combine function {name} (because as many"
                f" tiles are reduced), got {count}",
                hint="return one value for each tile, in order",
            )
        if isinstance(part, values.constexpr) and isinstance(part.value, (bool, int, float)):
            return self.constant(ty.mlir, part.value)
        if not isinstance(part, values.tensor) or part.type.is_block():
            raise CompilationError(
                f"expected the combine function {name} to return {ty} (because it combines scalars of that type), got"
                f" {values.type_of(part)}"
            )
        if part.type == ty:
            return part.handle
        # Promotion inside the function may widen (bool to int, int8 to int32): the accumulator keeps its type.
        if part.type.is_ptr() or part.type.is_floating() != ty.is_floating():
            raise CompilationError(
                f"expected the combine function {name} to return {ty} (because the accumulator keeps its type), got"
                f" {part.type}",
                hint=f"cast its result with .to({public_name(ty)})",
            )
        return semantic.cast(part, ty).handle

    # -- functions ---------------------------------------------------------------------------

    def call(self, fn: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """The call of a jit function, with values of the language (or plain Python ones) as arguments."""
        from kiln.frontend.calls import call_function

        return call_function(self, fn, list(args), dict(kwargs or {}))

    def symbol(self, name: str) -> str:
        """A function name nobody has yet."""
        unique, count = name, 0
        while unique in self._symbols:
            count += 1
            unique = f"{name}.{count}"
        self._symbols.add(unique)
        return unique


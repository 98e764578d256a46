"""The module being emitted: ops, constants, regions and calls, placed at the source position being visited.

Only the visitor moves the position. One emission belongs to one thread, see emission.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, SourceRange

if TYPE_CHECKING:
    from kiln.frontend.calls import EmittedFunction
    from kiln.frontend.visitor import Visitor

# Ops with side effects (and loads), with their names in kernels. Ops that may be pure have an `isPure` attribute.
_EFFECTS = {
    "tile.load": "kl.load", "tile.store": "kl.store", "tile.block_load": "kl.load", "tile.block_store": "kl.store",
    "tile.desc_load": "a descriptor load", "tile.desc_store": "a descriptor store",
    "tile.desc_reduce": "a descriptor's atomic", "tile.print": "kl.device_print",
    "tile.prefetch": "kl.prefetch", "tile.assert": "kl.device_assert", "tile.barrier": "kl.debug_barrier",
    "tile.atomic_rmw": "an atomic",
    "tile.atomic_cas": "an atomic", "tile.inline_asm": "assembly that is not pure",
    "tile.extern_call": "a library call that is not pure",
    "tile.launch_dependents": "gdc_launch_dependents", "tile.wait_for_grid": "gdc_wait",
}  # fmt: skip

# Those that may be executed for some elements of a tile and not for others.
_EFFECTS_OF_ELEMENTS = ("tile.load", "tile.store", "tile.atomic_rmw", "tile.assert")


@dataclass
class Step:
    """A recorded op. ``outermost``: it is not in a region of another recorded op."""

    name: str
    operands: list[int]
    results: list[int]
    attrs: dict[str, Any]
    outermost: bool


class Emitter:
    """One module under construction."""

    def __init__(self, make_visitor: type[Visitor], target: str = "") -> None:
        from kiln._kiln import Builder

        self.builder = Builder()
        self.make_visitor = make_visitor
        """Of a function and its scope: calls emit other functions with it."""
        self.target = target
        """The row of the target table that the kernel sees; if empty, the one that the switches select."""
        self.visitor: Visitor | None = None
        """Walks the function being emitted; knows the current position."""
        self.functions: dict[Any, EmittedFunction] = {}
        """Private functions emitted so far, by function, argument types and constexprs."""
        self.chain: list[Any] = []
        """Functions being emitted, outermost first; used to detect recursion."""
        self.inlining = 0
        """Above 0, calls are emitted in place: inside the region of a reduce or scan."""
        self.fault: SourceRange | None = None
        """The position of an internal failure."""
        self.combining: list[str] = []
        """Names of the scalar functions (of reductions, scans and maps) whose regions are being emitted."""
        self.has_effects = False
        """Whether the combine function being emitted accesses memory."""
        self.steps: list[Step] | None = None
        """The list that ops are recorded in, if any."""
        self._least_depth = 0
        self._symbols: set[str] = set()
        self._placed = -1

    # -- ops ---------------------------------------------------------------------------------

    def place(self) -> None:
        """Passes the current source position to the builder, if it has changed."""
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
        """Emits any op; returns handles of its results. `segments`: operand counts, for ops with several groups."""
        if self.combining:
            self._check_scalars(name, result_types, attrs or {})
        self.place()
        results = self.builder.create(
            name, list(operands), list(result_types), attrs or {}, list(regions),
            None if segments is None else list(segments),
        )  # fmt: skip
        if self.steps is not None:
            outermost = self.builder.depth() == self._least_depth
            self.steps.append(Step(name, list(operands), list(results), attrs or {}, outermost))
        return results

    @contextmanager
    def noting(self) -> Iterator[list[Step]]:
        """Emits calls in place and records all ops."""
        outer, least = self.steps, self._least_depth
        steps: list[Step] = []
        self.steps = steps
        self._least_depth = self.builder.depth()
        self.inlining += 1
        try:
            yield steps
        finally:
            self.inlining -= 1
            self.steps, self._least_depth = outer, least
            if outer is not None:
                outer += steps

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
        """A value that is never read, for paths that do not reach a use."""
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

    def _check_scalars(self, name: str, result_types: Sequence[str], attrs: dict[str, Any]) -> None:
        """Checks that an op in a function of scalars can be executed for some elements only, and in any order."""
        if name in _EFFECTS and "isPure" not in attrs:
            self.has_effects = True
            if name not in _EFFECTS_OF_ELEMENTS:
                raise CompilationError(
                    "expected only loads, stores, atomics and assertions in a function of elements (because they"
                    f" happen for each by itself, in any order), got {_EFFECTS[name]} in {self.combining[-1]}"
                )
        if any(text.startswith(("tensor<", "!tile.desc", "!tile.block_ptr")) for text in result_types):
            raise CompilationError(
                f"expected scalars in {self.combining[-1]} (because it is applied to single elements), got a tile"
            )

    def map_region(self, fn: Any, argument_types: Sequence[Any], what: str) -> tuple[int, list[Any]]:
        """The region of a map, with `fn` applied to scalars, and the scalars that it returned."""
        from kiln.language import semantic, values

        name = getattr(fn, "__name__", what)
        handles = self.begin_region([ty.mlir for ty in argument_types])
        scalars = [values.tensor(handle, ty) for handle, ty in zip(handles, argument_types, strict=True)]
        self.inlining += 1
        self.combining.append(name)
        try:
            result = fn(*scalars)
            several = isinstance(result, (tuple, list, values.tuple))
            parts = list(result) if several else [] if values.unwrap(result) is None else [result]
            for i, part in enumerate(parts):
                if isinstance(part, values.constexpr) and isinstance(part.value, (bool, int, float)):
                    parts[i] = semantic.to_tensor(part)
                elif not isinstance(part, values.tensor) or part.type.is_block():
                    raise self._blame_combine(
                        fn,
                        f"expected {name} to return scalars (because it is applied to single elements), got"
                        f" {semantic.describe(part)}",
                    )
            self.op("tile.yield", [part.handle for part in parts])
        finally:
            self.inlining -= 1
            self.combining.pop()
        return self.end_region(), parts

    def combine_region(self, fn: Any, element_types: Sequence[Any]) -> int | None:
        """The region of a reduce or scan: `fn` applied to two groups of scalars, ended by tile.yield. None if `fn`
        accesses memory; then nothing was emitted."""
        from kiln.language import values

        types = list(element_types)
        self._check_arity(fn, len(types))
        handles = self.begin_region([ty.mlir for ty in types] * 2)
        arguments = [values.tensor(handle, ty) for handle, ty in zip(handles, types + types, strict=False)]
        self.has_effects = False
        self.op("tile.yield", self._combine(fn, arguments, types))
        if self.has_effects:
            self.builder.drop_region()
            return None
        return self.end_region()

    def combine_step(self, fn: Any, element_types: Sequence[Any], guarded: bool = False) -> int:
        """The region of a map that applies `fn` to two groups of elements. With `guarded` it takes a flag too, and
        yields the second group where the flag is false."""
        from kiln.language import values

        types = list(element_types)
        kinds = [ty.mlir for ty in types]
        handles = self.begin_region([*kinds * 2, *(["i1"] if guarded else [])])
        arguments = [values.tensor(handle, ty) for handle, ty in zip(handles, types + types, strict=False)]
        if guarded:
            self.begin_region()
        found = self._combine(fn, arguments, types)
        if guarded:
            self.op("scf.yield", found)
            then = self.end_region()
            self.begin_region()
            self.op("scf.yield", [value.handle for value in arguments[len(types) :]])
            found = self.op("scf.if", [handles[-1]], kinds, regions=[then, self.end_region()])
        self.op("tile.yield", found)
        return self.end_region()

    def _combine(self, fn: Any, arguments: list[Any], types: list[Any]) -> list[Any]:
        """Applies `fn` to two groups of elements; the results as handles of these types."""
        from kiln.language import values

        self.inlining += 1
        self.combining.append(getattr(fn, "__name__", "the combine function"))
        try:
            result = fn(*arguments)
        finally:
            self.inlining -= 1
            self.combining.pop()
        parts = list(result) if isinstance(result, (tuple, list, values.tuple)) else [result]
        found = [self._combined(fn, part, ty, len(parts), types) for part, ty in zip(parts, types, strict=False)]
        if len(parts) != len(types):
            self._combined(fn, None, types[0], len(parts), types)
        return found

    def _check_arity(self, fn: Any, tiles: int) -> None:
        """Checks that a combine function takes the elements of one group, then those of the other."""
        from kiln.frontend.function import KernelFunction

        if not isinstance(fn, KernelFunction):
            return
        positional = [p for p in fn.params if p.kind == "positional"]
        least, most = sum(not p.has_default for p in positional), len(positional)
        if any(p.kind == "variadic" for p in fn.params) or least <= 2 * tiles <= most:
            return
        raise self._blame_combine(
            fn,
            f"expected a combine function of {2 * tiles} parameters (because it gets two groups of {tiles}"
            f" element{'s' * (tiles > 1)}), got {fn.__name__}({', '.join(fn.arg_names)})",
        )

    def _blame_combine(self, fn: Any, message: str, hint: str | None = None) -> CompilationError:
        """An error about a combine function: the caret at the place where it was passed, a note at its definition."""
        from kiln.frontend.function import KernelFunction

        error = CompilationError(message, hint=hint)
        error.culprit = (fn,)
        if isinstance(fn, KernelFunction):
            error.note(f"{fn.__name__} is defined here", self.make_visitor(self, fn, {}).range(fn.tree))
        return error

    def _combined(self, fn: Any, part: Any, ty: Any, count: int, types: list[Any]) -> int:
        """One result of a combine function as a scalar of the type it must have."""
        from kiln.frontend.scope import public_name
        from kiln.language import semantic, values

        name = getattr(fn, "__name__", "the combine function")
        if count != len(types):
            raise self._blame_combine(
                fn,
                f"expected {len(types)} value{'s' * (len(types) > 1)} from the combine function {name} (because it"
                f" returns one for each tile), got {count}",
                hint="return one value for each tile, in order",
            )
        if isinstance(part, values.constexpr) and isinstance(part.value, (bool, int, float)):
            return self.constant(ty.mlir, part.value)
        if not isinstance(part, values.tensor) or part.type.is_block():
            raise self._blame_combine(
                fn,
                f"expected the combine function {name} to return {ty} (because it combines scalars of that type), got"
                f" {semantic.describe(part)}",
                hint="end it with return" if values.unwrap(part) is None else None,
            )
        if part.type == ty:
            return part.handle
        # Promotion inside the function may widen (bool to int, int8 to int32): the accumulator keeps its type.
        if part.type.is_ptr() or part.type.is_floating() != ty.is_floating():
            raise self._blame_combine(
                fn,
                f"expected the combine function {name} to return {ty} (because the accumulator keeps its type), got"
                f" {part.type}",
                hint=f"cast its result with .to({public_name(ty)})",
            )
        return semantic.cast(part, ty).handle

    # -- functions ---------------------------------------------------------------------------

    def call(self, fn: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Calls a jit function with values of the language (or plain Python values) as arguments."""
        from kiln.frontend.calls import call_function

        return call_function(self, fn, list(args), dict(kwargs or {}))

    def symbol(self, name: str) -> str:
        """A function name that the module does not use yet, in ASCII, which assemblers require."""
        plain = "".join(letter if letter.isascii() else f"u{ord(letter):04x}" for letter in name)
        unique, count = plain, 0
        while unique in self._symbols:
            count += 1
            unique = f"{plain}.{count}"
        self._symbols.add(unique)
        return unique

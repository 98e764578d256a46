"""The calls a counted loop runs over (range, kl.range, kl.static_range) and how their steps are counted in IR."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, near_match
from kiln.frontend import scope as scopes
from kiln.frontend.python_builtins import PythonBuiltin
from kiln.language import semantic, types, values

if TYPE_CHECKING:
    from kiln.frontend.emitter import Emitter
    from kiln.frontend.walker import Walker

_HINTS = {
    "num_stages": "tile.num_stages",
    "loop_unroll_factor": "tile.unroll",
    "disallow_acc_multi_buffer": "tile.disallow_acc_multi_buffer",
    "flatten": "tile.flatten",
    "warp_specialize": "tile.warp_specialize",
    "disable_licm": "tile.no_licm",
}
# The most stages and unrolled iterations, as the verifier requires (loop_c1, loop_c2).
MOST_STEPS = 4096
_BOUNDS = ("start", "stop", "step")
# Triton's names for the first two, which ported kernels may use.
_ALIASES = {"arg1": "start", "arg2": "stop"}


@dataclass
class LoopCall:
    """`range(start, stop, step)` with its hints as attributes of scf.for."""

    name: str
    start: Any
    stop: Any
    step: Any
    is_static: bool
    hints: dict[str, str] = field(default_factory=dict)

    def static_indices(self) -> list[values.constexpr]:
        """The indices, where all bounds are known."""
        bounds = []
        for what, bound in zip(_BOUNDS, (self.start, self.stop, self.step), strict=False):
            if not isinstance(bound, values.constexpr) or not isinstance(bound.value, int):
                raise CompilationError(
                    f"expected a constexpr integer as {what} of {self.name} (because the loop is unrolled at compile"
                    f" time), got {scopes.describe(bound)}",
                    hint="use kl.range for a loop that runs on the device, or make the bound kl.constexpr",
                    argument=what,
                )
            bounds.append(int(bound.value))
        if bounds[2] == 0:
            raise CompilationError(f"expected a step other than 0 in {self.name}, got 0", argument="step")
        return [values.constexpr(index) for index in range(*bounds)]


def bind_range(visitor: Walker, node: ast.Call, function: Any) -> LoopCall | None:
    """The loop that a call describes; None if the callee is no range."""
    if isinstance(function, PythonBuiltin) and function.name == "range":
        name, static, hinted = "range", False, True
    elif _is_language(function, "range"):
        name, static, hinted = "kl.range", False, True
    elif _is_language(function, "static_range"):
        name, static, hinted = "kl.static_range", True, False
    else:
        return None
    positional = visitor.elements(node.args)
    keywords = {_ALIASES.get(k.arg or "", k.arg or ""): visitor.visit(k.value) for k in node.keywords}
    if not 1 <= len(positional) <= 3 and not (not positional and "stop" in keywords):
        raise CompilationError(f"expected 1 to 3 bounds in {name}, got {len(positional)}")
    if len(positional) == 1 and "stop" not in keywords:
        positional = [values.constexpr(0), positional[0]]
    bounds: dict[str, Any] = {
        "start": values.constexpr(0),
        "step": values.constexpr(1),
        **dict(zip(_BOUNDS, positional, strict=False)),
    }
    hints: dict[str, str] = {}
    for key, value in keywords.items():
        if key in _BOUNDS and not (key in dict(zip(_BOUNDS, positional, strict=False)) and key != "start"):
            if not (key == "step" and values.unwrap(value) is None):
                bounds[key] = value
        elif hinted and key in _HINTS:
            hints.update(_hint(name, key, value))
        else:
            match = near_match(key, [*_BOUNDS, *(_HINTS if hinted else ())])
            raise CompilationError(
                f"{name} has no keyword argument {key}", hint=f"did you mean {match}?" if match else None, argument=key
            )
    if values.unwrap(bounds["step"]) is None:
        bounds["step"] = values.constexpr(1)
    return LoopCall(name, bounds["start"], bounds["stop"], bounds["step"], static, hints)


def _is_language(function: Any, name: str) -> bool:
    import kiln.language

    return function is getattr(kiln.language, name, None)


def _hint(name: str, key: str, value: Any) -> dict[str, str]:
    """One hint as an attribute; None if it requests nothing."""
    known = values.unwrap(value)
    if isinstance(known, values.tensor):
        raise CompilationError(
            f"expected a constexpr for {key} of {name} (because it steers the compiler), got {scopes.describe(value)}",
            argument=key,
        )
    if known is None:
        return {}
    if key in ("num_stages", "loop_unroll_factor"):
        if isinstance(known, bool) or not isinstance(known, int) or not 0 <= known <= MOST_STEPS:
            raise CompilationError(f"expected a number from 0 to {MOST_STEPS} for {key} of {name}, got {known!r}")
        # Zero stages is a valid request, since the launch may request others; unrolling zero iterations is not.
        return {_HINTS[key]: f"{known} : i32"} if known or key == "num_stages" else {}
    return {_HINTS[key]: "unit"} if known else {}


@dataclass
class Counter:
    """The counter of an scf.for, which only goes up, and the index of the program's own loop made from it.

    start, stop, step   handles of the counter's bounds, of integer type `mlir`
    first, stride       handles: index = first + counter * stride; None: the index is the counter
    may_wrap            start + k * step may wrap in the step that reaches stop; scf.for ends anyway, a loop that
                        compares the counter does not
    """

    emitter: Emitter
    mlir: str
    type: Any
    start: int
    stop: int
    step: int
    first: int | None = None
    stride: int | None = None
    may_wrap: bool = False

    @property
    def less_than(self) -> str:
        """The predicate of `counter < stop` (arith.cmpi), which is signed."""
        return "2 : i64"

    def index(self, counter: int) -> Any:
        """The value of the loop's variable for a value of the counter."""
        handle = counter
        if self.first is not None and self.stride is not None:
            moved = self.emitter.op1("arith.muli", [counter, self.stride], [self.mlir])
            handle = self.emitter.op1("arith.addi", [self.first, moved], [self.mlir])
        if self.type.mlir != self.mlir:
            handle = self.emitter.op1("arith.trunci", [handle], [self.type.mlir])
        return values.tensor(handle, self.type)

    def last(self, counter: int | None, before: Any) -> Any:
        """The index of the last iteration; of a loop that did not run, `before`, the value its name had, or 0.

        counter   what the counter had come to when the loop was left; None for a loop that ran to its end
        """

        def op(name: str, *operands: int) -> int:
            return self.emitter.op1(f"arith.{name}", operands, [self.mlir])

        ran = self.emitter.op1("arith.cmpi", [self.start, counter or self.stop], ["i1"], {"predicate": self.less_than})
        if counter is None:
            # Unsigned, for bounds further apart than the largest signed number.
            distance = op("subi", op("subi", self.stop, self.start), self.emitter.constant(self.mlir, 1))
            steps = op("divui", distance, self.step)
            last = op("addi", self.start, op("muli", steps, self.step))
        else:
            last = op("subi", counter, self.step)
        before = before.make() if isinstance(before, scopes.LastIndex) else before
        otherwise = scopes.as_type(before, self.type)[0] if scopes.is_static(before) else before.handle
        handle = self.emitter.op1("arith.select", [ran, self.index(last).handle, otherwise], [self.type.mlir])
        return values.tensor(handle, self.type)

    @staticmethod
    def make(emitter: Emitter, call: LoopCall) -> Counter:
        bounds = [
            _bound(call, what, bound) for what, bound in zip(_BOUNDS, (call.start, call.stop, call.step), strict=False)
        ]
        index_type = _index_type(bounds)
        # Counting is signed: an unsigned index of 32 bits is counted in 64.
        count_type = types.int64 if index_type.int_bitwidth == 64 or index_type.is_int_unsigned() else types.int32
        start, stop, step = (semantic.cast(bound, count_type).handle for bound in map(semantic.to_tensor, bounds))
        mlir = count_type.mlir
        known = values.unwrap(call.step)
        if isinstance(known, values.tensor):
            # Persistent kernels step by the number of programs, which is at least 1.
            if emitter.builder.defining_op(known.handle) == "tile.num_programs":
                return Counter(emitter, mlir, index_type, start, stop, step, may_wrap=True)
            trips = _trip_count(emitter, mlir, start, stop, None, step)
            one = emitter.constant(mlir, 1)
            return Counter(emitter, mlir, index_type, emitter.constant(mlir, 0), trips, one, start, step)
        if known == 0:
            raise CompilationError(f"expected a step other than 0 in {call.name}, got 0", argument="step")
        if known > 0:
            return Counter(emitter, mlir, index_type, start, stop, step, may_wrap=_may_wrap(call, count_type))
        if known == -1:
            # -1 - i counts up where i counts down, and never wraps.
            ones = emitter.constant(mlir, -1)
            low, high = (emitter.op1("arith.xori", [bound, ones], [mlir]) for bound in (start, stop))
            return Counter(emitter, mlir, index_type, low, high, emitter.constant(mlir, 1), ones, ones)
        trips = _trip_count(emitter, mlir, start, stop, known)
        return Counter(
            emitter, mlir, index_type, emitter.constant(mlir, 0), trips, emitter.constant(mlir, 1), start, step
        )

    def by_ones(self) -> Counter:
        """The same loop with a counter that can take one step too many without wrapping."""
        if not self.may_wrap:
            return self
        emitter, mlir = self.emitter, self.mlir
        trips = _trip_count(emitter, mlir, self.start, self.stop, 1, self.step)
        zero, one = emitter.constant(mlir, 0), emitter.constant(mlir, 1)
        return Counter(emitter, mlir, self.type, zero, trips, one, self.start, self.step)


def _bound(call: LoopCall, what: str, bound: Any) -> Any:
    """A bound of a counted loop: an integer known now, or an integer scalar."""
    value = values.unwrap(bound)
    if isinstance(value, values.tensor):
        if not value.type.is_block() and not value.type.is_ptr() and value.type.is_int():
            return value
        hint = None
        if value.type.is_block():
            hint = "reduce the tile to a scalar first, for example with kl.max"
        elif not value.type.is_ptr():
            hint = "cast it with .to(kl.int32)"
    elif isinstance(value, int):
        return values.constexpr(int(value))
    else:
        hint = "divide with // to stay with integers" if isinstance(value, float) else None
    raise CompilationError(
        f"expected an integer as {what} of {call.name} (because it counts iterations), got {scopes.describe(bound)}",
        hint=hint,
        argument=what,
    )


def _index_type(bounds: list[Any]) -> Any:
    """The type of the index: the common type of the bounds, at least int32."""
    result = types.int32
    for bound in bounds:
        if isinstance(bound, values.tensor):
            if bound.type.int_bitwidth >= 32:
                result = semantic.common_type(result, False, bound.type, False)
        elif not types.int32.get_int_min_value() <= bound.value <= types.int32.get_int_max_value():
            result = semantic.common_type(result, False, types.int64, False)
    return result


def _may_wrap(call: LoopCall, count_type: Any) -> bool:
    """Whether the number after the last may lie beyond the type, for a known step above 0."""
    step, stop = values.unwrap(call.step), values.unwrap(call.stop)
    if step == 1:
        return False
    return isinstance(stop, values.tensor) or stop - 1 + step > count_type.get_int_max_value()


def _trip_count(emitter: Emitter, mlir: str, start: int, stop: int, known: int | None, step: int = 0) -> int:
    """The number of iterations, at most the largest signed number; 0 for a step of 0.

    known   the step; 1 for the step `step`, which is above 0; None for the step `step`, whose sign is not known
    """

    def op(name: str, *operands: int) -> int:
        return emitter.op1(f"arith.{name}", operands, [mlir])

    def compare(predicate: int, a: int, b: int) -> int:
        return emitter.op1("arith.cmpi", [a, b], ["i1"], {"predicate": f"{predicate} : i64"})

    zero, one = emitter.constant(mlir, 0), emitter.constant(mlir, 1)
    rises, falls = compare(2, start, stop), compare(4, start, stop)
    up_by, down_by = op("subi", stop, start), op("subi", start, stop)
    if known is not None:
        runs, distance = (rises, up_by) if known > 0 else (falls, down_by)
        size = step or emitter.constant(mlir, abs(known))
    else:
        up = compare(4, step, zero)
        runs = emitter.op1("arith.select", [up, rises, falls], ["i1"])
        runs = emitter.op1("arith.andi", [runs, compare(1, step, zero)], ["i1"])
        distance = op("select", up, up_by, down_by)
        # Never 0: the quotient matters only for loops that run.
        size = op("maxui", op("select", up, step, op("subi", zero, step)), one)
    # Unsigned, for bounds further apart than the largest signed number.
    steps = op("addi", op("divui", op("subi", distance, one), size), one)
    return op("select", runs, steps, zero)

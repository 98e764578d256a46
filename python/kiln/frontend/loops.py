"""Loops. A counted loop without exits is one scf.for; with `break` or `return` it is an scf.while that carries a flag.

A loop carries the names that its body assigns and that have a value before it. Exits add one i1 for `break`, and one
for `return` together with the returned value. Static loops (kl.static_range, tuples) are unrolled here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kiln.errors import CompilationError
from kiln.frontend import scope as scopes
from kiln.frontend.range_loop import Counter, LoopCall, bind_range
from kiln.frontend.scan import assigned_names, leaves_loop, with_end
from kiln.frontend.scope import BROKE, FALSE, LEFT, MISSING, RESULT, RETURNED, SKIPPED, Scope
from kiln.frontend.walker import Walker
from kiln.language import types, values

_TEST = "loop test"


@dataclass
class Carried:
    """One variable of a loop: its value before it (IR values only), and where the body assigns it."""

    name: str
    like: Any
    assigned: ast.AST

    @property
    def types(self) -> list[str]:
        return scopes.ir_types(self.like)


@dataclass
class Exits:
    """How the body of a loop may leave it, apart from its test."""

    flags: list[str]
    result: Any = MISSING
    """A value of the form returned from inside the loop; MISSING if none is."""

    @property
    def types(self) -> list[str]:
        result = [] if self.result is MISSING else scopes.ir_types(self.result)
        return ["i1"] * len(self.flags) + result


class Loops(Walker):
    """`for`, `while`."""

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            raise CompilationError("`else` of a loop is not supported in a kernel", hint="set a flag before `break`")
        call: LoopCall | None = None
        if isinstance(node.iter, ast.Call):
            with self.at(node.iter):
                call = self.loop_call(node.iter)
        if call is None:
            hint = "count with range(...), or kl.static_range(...)"
            self._unrolled(node, self.static_items(self.visit(node.iter), node.iter, hint))
        elif call.is_static:
            with self.at(node.iter):
                indices = call.static_indices()
            self._unrolled(node, indices)
        elif not isinstance(node.target, ast.Name):
            error = CompilationError("expected one name for the index of a counted loop, got several")
            raise self.locate(error, node.target)
        else:
            self._counted(node, call, node.target.id)

    def loop_call(self, node: ast.Call) -> LoopCall | None:
        """The call of range, kl.range or kl.static_range that a loop runs over; None if it is something else."""
        return bind_range(self, node, self.visit(node.func))

    # -- unrolled ----------------------------------------------------------------------------

    def _unrolled(self, node: ast.For, items: list[Any]) -> None:
        body = with_end(node.body, _at(ast.Continue(), node), node)
        # The next iteration reads every name.
        self.carried.append(None)
        self._iterations(node, body, items, 0)
        self.carried.pop()
        self.scope[BROKE] = FALSE
        self.scope[LEFT] = self.scope[RETURNED]

    def _iterations(self, node: ast.For, body: list[ast.stmt], items: list[Any], first: int) -> None:
        for index in range(first, len(items)):
            self.bind(node.target, items[index])
            self.visit_block(body)
            self.scope[SKIPPED] = FALSE
            self.scope[LEFT] = scopes.either(self.emitter, self.scope[BROKE], self.scope[RETURNED])
            left = scopes.exit_flag(self.emitter, self.scope)
            if left is True:
                return
            if left is not False:
                if index + 1 < len(items):
                    self.guard(
                        left, lambda: self._iterations(node, body, items, index + 1), (node, node.body[0])  # noqa: B023
                    )  # fmt: skip
                return

    # -- counted -----------------------------------------------------------------------------

    def _counted(self, node: ast.For, call: LoopCall, target: str) -> None:
        with self.at(node.iter):
            counter = Counter.make(self.emitter, call)
        carried = self._carried(node.body, exclude=target)
        before = self.scope
        handles = self.emitter.begin_region([counter.mlir, *_types(carried)])
        self._enter(carried, handles[1:])
        self.scope[target] = counter.index(handles[0])
        self._body(node, carried)
        exits = self._exits(node)
        if exits.flags:
            # The body may leave early: emit the loop again as an scf.while. Only loops with exits need a second walk.
            self.emitter.builder.drop_region()
            self.scope = before
            self._counted_with_exits(node, counter, target, carried, exits)
            return
        self.emitter.op("scf.yield", self._next(carried, node))
        end = self.scope
        region = self.emitter.end_region()
        bounds = [counter.start, counter.stop, counter.step]
        results = self.emitter.op("scf.for", [*bounds, *_handles(carried)], _types(carried), call.hints, [region])
        self._leave(node, before, end, carried, results, [target])
        self._keep_index(node, before, counter, target, None)

    def _counted_with_exits(
        self, node: ast.For, counter: Counter, target: str, carried: list[Carried], exits: Exits
    ) -> None:
        emitter = self.emitter
        with self.at(node.iter):
            counter = counter.by_ones()

        def test(state: Sequence[int]) -> bool | int:
            return emitter.op1("arith.cmpi", [state[0], counter.stop], ["i1"], {"predicate": counter.less_than})

        def enter(state: Sequence[int]) -> None:
            self.scope[target] = counter.index(state[0])

        def advance(state: Sequence[int]) -> list[int]:
            return [emitter.op1("arith.addi", [state[0], counter.step], [counter.mlir])]

        before = self.scope
        loop = _While(node, [counter.start], [counter.mlir], test, enter, advance)
        state = self._while(loop, carried, exits, [target])
        self._keep_index(node, before, counter, target, state[0])

    def _keep_index(self, node: ast.For, before: Scope, counter: Counter, target: str, left_at: int | None) -> None:
        """Keeps the last value of a counted loop's index after the loop, as in Python, if the body did not assign to
        it. If the loop did not run, the name keeps its previous value, or is 0 if it had none."""
        gone, old = self.scope[target], before.get(target, MISSING)
        if old is MISSING or (isinstance(old, scopes.Undefined) and not isinstance(old, scopes.LastIndex)):
            old = values.constexpr(0)
        keeps = scopes.is_static_number(old) and scopes.fits(old, counter.type)
        keeps = keeps or (isinstance(old, (values.tensor, scopes.LastIndex)) and old.type == counter.type)
        if keeps and target not in assigned_names(node.body):
            make = lambda: counter.last(left_at, old)  # noqa: E731
            self.scope[target] = scopes.LastIndex(gone.reason, gone.hint, gone.notes, counter.type, make)

    # -- while -------------------------------------------------------------------------------

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            raise CompilationError("`else` of a loop is not supported in a kernel", hint="set a flag before `break`")
        if isinstance(node.test, ast.Constant) and not node.test.value:
            return
        self._define_test_names(node)
        carried = self._carried([node.test, *node.body])
        exits = Exits([])
        if leaves_loop(node.body):
            # The exits are known only after visiting the body once.
            before = self.scope
            self._enter(carried, self.emitter.begin_region(_types(carried)))
            self.condition(node.test)
            self._body(node, carried)
            exits = self._exits(node)
            self.emitter.builder.drop_region()
            self.scope = before
        loop = _While(node, [], [], lambda _: self.condition(node.test), lambda _: None, lambda _: [])
        self._while(loop, carried, exits, [])

    def _define_test_names(self, node: ast.While) -> None:
        """Defines names that the test itself assigns (`:=`). Before the first test their values are never read."""
        names = [name for name in assigned_names([node.test]) if not self._has_value(name)]
        if not names:
            return
        before = self.scope
        carried = self._carried(node.body)
        self._enter(carried, self.emitter.begin_region(_types(carried)))
        self.condition(node.test)
        found = {name: self.scope[name] for name in names if name in self.scope}
        self.emitter.builder.drop_region()
        self.scope = dict(before)
        for name, value in found.items():
            if not isinstance(value, scopes.Undefined):
                self.scope[name] = scopes.rebuild(value, scopes.poison(self.emitter, value))

    def _has_value(self, name: str) -> bool:
        return not isinstance(self.scope.get(name, scopes.Undefined("")), scopes.Undefined)

    def _while(self, loop: _While, carried: list[Carried], exits: Exits, targets: list[str]) -> list[int]:
        """Emits the scf.while. Its state is the loop's own, the carried variables, the flags and the returned value.
        Returns the loop's own state after it."""
        emitter, node, before = self.emitter, loop.node, self.scope
        own, kept = len(loop.types), len(_types(carried))
        state_types = [*loop.types, *_types(carried), *exits.types]
        falses = [emitter.constant("i1", False) for _ in exits.flags]
        unknown = [] if exits.result is MISSING else scopes.poison(emitter, exits.result)
        initial = [*loop.initial, *_handles(carried), *falses, *unknown]

        state = emitter.begin_region(state_types)
        self._enter(carried, state[own : own + kept])
        flags = state[own + kept : own + kept + len(exits.flags)]
        self.test_hints = {}
        condition = self._loop_test(loop, state, flags)
        hints = self.test_hints
        passed = [*state[:own], *self._next(carried, node), *state[own + kept :]]
        emitter.op("scf.condition", [condition, *passed])
        test_region = emitter.end_region()

        state = emitter.begin_region(state_types)
        self.scope = dict(before)
        self._enter(carried, state[own : own + kept])
        loop.enter(state)
        self._body(node, carried)
        end = self.scope
        following = [*loop.advance(state), *self._next(carried, node), *self._exit_state(exits)]
        emitter.op("scf.yield", following)
        results = emitter.op("scf.while", initial, state_types, hints, [test_region, emitter.end_region()])

        self._leave(node, before, end, carried, results[own : own + kept], targets)
        left = results[own + kept :]
        for name, handle in zip(exits.flags, left, strict=False):
            if name == RETURNED:
                self.scope[RETURNED] = self.scope[LEFT] = values.tensor(handle, types.int1)
        if exits.result is not MISSING:
            self.scope[RESULT] = scopes.rebuild(exits.result, left[len(exits.flags) :])
        return results[:own]

    def _loop_test(self, loop: _While, state: list[int], flags: list[int]) -> int:
        """Whether another iteration runs."""
        emitter = self.emitter
        if not flags:
            condition = loop.test(state)
            if condition is True:
                raise CompilationError(
                    "expected a loop that ends, got a condition that is always true and no break or return in the body",
                    hint="test something that the body changes",
                )
            return self._condition_handle(condition)
        flag = flags[0]
        for other in flags[1:]:
            flag = emitter.op1("arith.ori", [flag, other], ["i1"])
        if loop.initial:
            # Comparing a counter has no side effects, so it needs no guard.
            condition = self._condition_handle(loop.test(state))
            return emitter.op1("arith.select", [flag, emitter.constant("i1", False), condition], ["i1"])

        # The user's test may read memory: it must not be evaluated once the body has left the loop.
        def stop() -> None:
            self.scope[_TEST] = FALSE

        def evaluate() -> None:
            self.scope[_TEST] = values.tensor(self._condition_handle(loop.test(state)), types.int1)

        self.fork(flag, stop, evaluate, (loop.node, loop.node))
        return self._flag(self.scope.pop(_TEST))

    def _condition_handle(self, condition: bool | int) -> int:
        return self.emitter.constant("i1", condition) if isinstance(condition, bool) else condition

    # -- what loops share --------------------------------------------------------------------

    def _carried(self, body: Sequence[ast.AST], exclude: str = "") -> list[Carried]:
        """The variables of a loop. Known numbers become IR values, as their values in later iterations are unknown."""
        result = []
        for name, place in assigned_names(body).items():
            value = self.scope.get(name, MISSING)
            if isinstance(value, scopes.LastIndex):
                self.scope[name] = value.lost()
            if name == exclude or value is MISSING or isinstance(value, scopes.Undefined):
                continue
            self.check_constant(place, False)
            settled = self.settle(value)
            if scopes.ir_types(settled):
                result.append(Carried(name, settled, place))
        return result

    def _enter(self, carried: list[Carried], handles: list[int]) -> None:
        """The scope of an iteration: carried variables are the region's arguments."""
        self.scope = dict(self.scope)
        for variable in carried:
            count = len(variable.types)
            self.scope[variable.name] = scopes.rebuild(variable.like, handles[:count])
            handles = handles[count:]

    def _body(self, node: ast.For | ast.While, carried: list[Carried]) -> None:
        self.scope[BROKE] = self.scope[SKIPPED] = self.scope[LEFT] = FALSE
        self.carried.append({variable.name for variable in carried})
        self.visit_block(with_end(node.body, _at(ast.Continue(), node), node))
        self.carried.pop()

    def _exits(self, node: ast.For | ast.While) -> Exits:
        """The ways in which the body just emitted may leave its loop."""
        flags = [name for name in (BROKE, RETURNED) if not _is_false(self.scope[name])]
        if RETURNED not in flags or RESULT not in self.scope:
            return Exits(flags)
        result = self.scope[RESULT]
        if isinstance(result, scopes.Undefined):
            raise self.locate(result.error("the result"), node)
        return Exits(flags, self.settle(result))

    def _exit_state(self, exits: Exits) -> list[int]:
        """The flags and the returned value at the end of an iteration."""
        handles = [self._flag(self.scope[name]) for name in exits.flags]
        if exits.result is MISSING:
            return handles
        value = self.scope.get(RESULT, MISSING)
        if value is MISSING:
            return handles + scopes.poison(self.emitter, exits.result)
        return handles + values.flatten(self.settle(value))

    def _flag(self, flag: Any) -> int:
        if isinstance(flag, values.constexpr):
            return self.emitter.constant("i1", bool(flag.value))
        return flag.handle

    def _next(self, carried: list[Carried], node: ast.AST) -> list[int]:
        """The carried variables at the end of an iteration; checks that each still has the type it started with."""
        handles: list[int] = []
        for variable in carried:
            value = self.scope.get(variable.name, MISSING)
            if isinstance(value, scopes.Undefined):
                raise self.locate(value.error(variable.name), variable.assigned)
            handles += self._same_type(variable, variable.like, value, node)
        return handles

    def _same_type(self, variable: Carried, like: Any, value: Any, node: ast.AST) -> list[int]:
        both = isinstance(like, values.tuple) and isinstance(value, values.tuple)
        if both and len(like) == len(value) and like.cls is value.cls:
            pairs = zip(like.values, value.values, strict=False)
            return [handle for a, b in pairs for handle in self._same_type(variable, a, b, node)]
        if isinstance(like, values.tensor) and scopes.is_static_number(value) and scopes.fits(value, like.type):
            return scopes.as_type(value, like.type)
        if scopes.is_static(like) and scopes.same_static(like, value):
            return []
        if scopes.is_static(value) or values.type_of(like) != values.type_of(value):
            raise self._type_change(variable, like, value, node)
        return values.flatten(value)

    def _type_change(self, variable: Carried, like: Any, value: Any, node: ast.AST) -> CompilationError:
        name = variable.name
        error = CompilationError(
            f"expected {name} to keep its type through the loop (because the next iteration reads it), got"
            f" {scopes.describe(like)} before the loop and {scopes.describe(value)} at the end of an iteration",
            hint=_type_change_hint(name, like, value),
        )
        self.locate(error, variable.assigned)
        return error.note("the loop is here", self.range(_head(node)))

    def _leave(
        self, node: ast.AST, before: Scope, end: Scope, carried: list[Carried], results: list[int],
        targets: list[str],
    ) -> None:  # fmt: skip
        """The scope after a loop: carried variables are its results; names only the body assigned are undefined."""
        names = {variable.name for variable in carried}
        self.scope = dict(before)
        self._enter(carried, results)
        head = self.range(_head(node))
        for name, value in end.items():
            if name in scopes.HIDDEN or name in names or name in targets or value is before.get(name, MISSING):
                continue
            if name not in before:
                self.scope[name] = scopes.Undefined(
                    f"{{name}} is assigned only inside the loop of line {head.line}, which may not run at all",
                    hint="assign {name} before the loop",
                    notes=[("the loop is here", head)],
                )
            elif not scopes.same_static(value, before[name]):
                self.scope[name] = scopes.Undefined(
                    f"expected {{name}} to stay the same through the loop of line {head.line} (because it is not a"
                    f" number or a tensor), got {scopes.describe(before[name])} before it and {scopes.describe(value)}"
                    " after an iteration",
                    hint="give {name} a value of its final type before the loop",
                    notes=[("the loop is here", head)],
                )
        for name in targets:
            self.scope[name] = scopes.Undefined(
                f"{{name}} is the index of the loop of line {head.line} and has no value here",
                hint="keep what you need in another name, assigned before the loop",
                notes=[("the loop is here", head)],
            )


@dataclass
class _While:
    """A loop to be emitted as scf.while: its own state besides the carried variables, and the functions on it."""

    node: Any
    initial: list[int]
    types: list[str]
    test: Callable[[Sequence[int]], bool | int]
    enter: Callable[[Sequence[int]], None]
    advance: Callable[[Sequence[int]], list[int]]


def _types(carried: list[Carried]) -> list[str]:
    return [text for variable in carried for text in variable.types]


def _handles(carried: list[Carried]) -> list[int]:
    return [handle for variable in carried for handle in values.flatten(variable.like)]


def _is_false(flag: Any) -> bool:
    return isinstance(flag, values.constexpr) and not flag.value


def _at(node: ast.stmt, owner: ast.AST) -> Any:
    return ast.copy_location(node, owner)


def _head(node: ast.AST) -> ast.AST:
    """The part of a loop that messages point at: its header, not its body."""
    if isinstance(node, ast.For):
        return node.iter
    return node.test if isinstance(node, ast.While) else node


def _type_change_hint(name: str, like: Any, value: Any) -> str:
    if isinstance(like, values.tensor) and isinstance(value, values.tensor):
        old, new = like.type, value.type
        if new.is_block() and not old.is_block():
            return f"start from a tile: {name} = kl.zeros({list(new.shape)}, {scopes.public_name(new.scalar)})"
        if old.shape == new.shape and not old.scalar.is_ptr() and not new.scalar.is_ptr():
            old_name, new_name = scopes.public_name(old.scalar), scopes.public_name(new.scalar)
            return f"cast at the end of the iteration with .to({old_name}), or start from a {new_name}"
    return f"use another name for the new value, or give {name} its final type before the loop"

"""Mutants of the emulator, and the tests that find them.

A mutant is an instruction that does nothing, or a change of one place in a function of the emulator: a statement is
dropped, a condition is constant, one side of an `and`, `or` or `x if c else y` is dropped. One pass over the tests
records which of them run each place, and with which values of the conditions. Each mutant then runs only the tests in
which it matters, in a process of its own, until one fails: a tenth of a second.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import inspect
import itertools
import multiprocessing.sharedctypes
import os
import pathlib
import pickle
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from . import machine as machines
from . import operation

HERE = pathlib.Path(__file__).parent
# Instructions that change no value: the emulator treats these as hints. membar is the old name of a fence, which Kiln
# does not emit.
HINTS = {"createpolicy", "membar", "nanosleep", "pmevent", "prefetch", "prefetchu"}
# Seconds of the processor that a test of a mutant may take: what runs longer never ends, and is found.
LONGEST = 1
# No test runs this many instructions, so that an endless loop ends soon.
LARGEST_RUN = 50_000
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Raise, ast.Delete, ast.Return, ast.Continue,
          ast.Break)  # fmt: skip
SKIPPED = (ast.FunctionDef, ast.Assert, ast.Pass, ast.Import, ast.ImportFrom)


@dataclass(eq=False)
class Mutant:
    """`where`: the place whose runs are recorded. `apply` changes the process for good."""

    name: str
    function: str
    where: Any
    apply: Callable[[], None]
    tests: list[int] = field(default_factory=list)


def clear_caches() -> None:
    """Kernels are bound again, and tables are computed again."""
    for name, module in list(sys.modules.items()):
        if name.startswith("emulator."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


# --- places of a function ---------------------------------------------------------------------------------------------


def _bound_once(function: ast.AST) -> set[str]:
    """Names whose only assignment is certain to be missed."""
    counts = Counter(
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return {name for name, count in counts.items() if count == 1} - arguments


def _is_missed(statement: ast.stmt, once: set[str]) -> bool:
    """Whether a later statement fails without this one, or it only names a type."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names = [node for target in targets for node in (target.elts if isinstance(target, ast.Tuple) else [target])]
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return True
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and all(
        isinstance(name, ast.Name) and name.id in once for name in names
    )


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if isinstance(body := getattr(node, name, None), list):
            yield body
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without those of the statements in it."""
    todo = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, (ast.stmt, ast.ExceptHandler))]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _replace(node: ast.AST, by: ast.AST) -> None:
    """Turns a node into another, so that whoever refers to it sees the other."""
    node.__class__ = by.__class__
    node.__dict__ = dict(by.__dict__)


def _without(node: ast.BoolOp, value: ast.expr) -> None:
    left = [other for other in node.values if other is not value]
    _replace(node, ast.copy_location(ast.BoolOp(node.op, left), node) if len(left) > 1 else left[0])


class Place:
    """A statement, and the changes at it."""

    def __init__(self, body: list[ast.stmt], statement: ast.stmt):
        self.body, self.statement = body, statement
        # What is changed, when that matters (None: if the statement runs; or an expression and its value), and how.
        self.changes: list[tuple[str, tuple[ast.expr, bool] | None, Callable[[], None]]] = []

    def drop(self) -> None:
        self.body[self.body.index(self.statement)] = ast.copy_location(ast.Pass(), self.statement)

    def add_drop(self) -> None:
        self.changes.append(("dropped", None, self.drop))

    def add_constant(self, test: ast.expr, value: bool) -> None:
        by = ast.copy_location(ast.Constant(value), test)
        self.changes.append(
            (f"`{ast.unparse(test)}` is {value}", (test, not value), functools.partial(_replace, test, by))
        )

    def add_expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.IfExp):
            for kept, value in ((node.body, False), (node.orelse, True)):
                what = f"`{ast.unparse(node)}` is `{ast.unparse(kept)}`"
                self.changes.append((what, (node.test, value), functools.partial(_replace, node, kept)))
        if isinstance(node, ast.BoolOp):
            for one in node.values:
                what = f"`{ast.unparse(node)}` without `{ast.unparse(one)}`"
                telling = one, isinstance(node.op, ast.Or)
                self.changes.append((what, telling, functools.partial(_without, node, one)))
        if isinstance(node, ast.comprehension):
            for one in node.ifs:
                what = f"without `if {ast.unparse(one)}`"
                self.changes.append((what, (one, False), functools.partial(node.ifs.remove, one)))

    def seen(self) -> list[ast.expr]:
        """The expressions whose values are recorded."""
        return list(dict.fromkeys(telling[0] for _, telling, _ in self.changes if telling is not None))

    def record(self, number: int) -> None:
        """Reports when the statement runs, and the values of the expressions."""
        for i, node in enumerate(self.seen()):
            copy = node.__class__(**node.__dict__)
            call = ast.Call(ast.Name("__saw__", ast.Load()), [ast.Constant(number), ast.Constant(i), copy], [])
            _replace(node, ast.fix_missing_locations(ast.copy_location(call, node)))
        call = ast.Call(ast.Name("__ran__", ast.Load()), [ast.Constant(number)], [])
        mark = ast.fix_missing_locations(ast.copy_location(ast.Expr(call), self.statement))
        self.body.insert(self.body.index(self.statement), mark)

    def key(self, number: int, telling: tuple[ast.expr, bool] | None) -> Any:
        """What is recorded where a change matters."""
        return number if telling is None else (number, self.seen().index(telling[0]), telling[1])


def _places(function: ast.AST) -> list[Place]:
    once = _bound_once(function)
    found = []

    def visit(body: list[ast.stmt], alone: bool) -> None:
        for statement in body:
            place = Place(body, statement)
            if isinstance(statement, ast.FunctionDef):
                visit(statement.body, False)
            if _is_text(statement) or isinstance(statement, SKIPPED):
                continue
            raises = isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[0], ast.Raise)
            returns_nothing = isinstance(statement, ast.Return) and (
                statement.value is None or ast.unparse(statement.value) == "None"
            )
            dropped = isinstance(statement, SIMPLE) and not alone and not _is_missed(statement, once)
            if dropped and not (returns_nothing and statement is body[-1]):
                place.add_drop()
            if isinstance(statement, ast.If):
                place.add_constant(statement.test, False)
                if not raises:
                    place.add_constant(statement.test, True)
            for node in _expressions(statement):
                place.add_expression(node)
            found.append(place)
            for inner in _bodies(statement):
                visit(inner, raises)

    for body in _bodies(function):
        visit(body, False)
    return found


# --- functions --------------------------------------------------------------------------------------------------------


@dataclass
class Function:
    """A function of a module or a method, whose code is replaced."""

    module: ModuleType
    holder: str | None  # the class
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        return f"{self.holder}.{self.tree.name}" if self.holder else self.tree.name

    def live(self) -> FunctionType:
        owner = getattr(self.module, self.holder) if self.holder else self.module
        found = inspect.getattr_static(owner, self.tree.name)
        while not isinstance(found, FunctionType):
            found = getattr(found, "fget", None) or getattr(found, "__func__", None) or found.__wrapped__
        return inspect.unwrap(found)

    def install(self) -> None:
        """Compiles the tree as it is now."""
        live, statements = self.live(), self.tree.body
        if live.__code__.co_freevars:
            # It calls super(): even without that, code of the same form.
            name = ast.Expr(ast.Name("__class__", ast.Load()))
            statements = [ast.fix_missing_locations(ast.copy_location(name, statements[0])), *statements]
        bare = ast.FunctionDef(**{**self.tree.__dict__, "decorator_list": [], "body": statements})
        body: list[ast.stmt] = [bare]
        if self.holder:
            body = [ast.copy_location(ast.ClassDef(self.holder, [], [], body, []), self.tree)]
        whole = ast.Module(body, [])
        flags = __import__("__future__").annotations.compiler_flag
        code = compile(whole, self.module.__file__ or "", "exec", flags, dont_inherit=True)
        for name in filter(None, (self.holder, self.tree.name)):
            code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
        live.__code__ = code


def functions(module: ModuleType) -> list[Function]:
    source = pathlib.Path(module.__file__ or "").read_text()
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found.append(Function(module, None, node))
        if isinstance(node, ast.ClassDef):
            found += [Function(module, node.name, inner) for inner in node.body if isinstance(inner, ast.FunctionDef)]
    return found


def mutants_of(module: ModuleType, count: Iterator[int]) -> Iterator[tuple[Function, Place, list[Mutant]]]:
    for function in functions(module):
        for place in _places(function.tree):
            number = next(count)
            found = []
            for what, telling, change in place.changes:

                def apply(change: Any = change, function: Function = function) -> None:
                    change()
                    function.install()

                text = ast.unparse(place.statement).splitlines()[0]
                name = f"{pathlib.Path(module.__file__ or '').name}: {function.name}"
                found.append(Mutant(f"{name}: {text}: {what}", name, place.key(number, telling), apply))
            yield function, place, found


def mutants_of_instructions() -> list[Mutant]:
    def nothing(name: str) -> None:
        _, known = operation._table[name]
        operation._table[name] = (lambda instruction: lambda machine, lanes: None), known

    return [
        Mutant(f"{name} does nothing", name, name, functools.partial(nothing, name))
        for name in sorted(set(operation._table) - HINTS)
    ]


# --- the tests --------------------------------------------------------------------------------------------------------


class Hunt:
    """A pytest plugin that runs the collected tests once, and then, for each mutant, those that may find it."""

    def __init__(self, modules: Sequence[ModuleType], jobs: int, chosen: Callable[[str], bool] = lambda name: True):
        self.jobs = jobs
        self.ran: set[Any] = set()
        self.places: list[tuple[Function, Place]] = []
        self.mutants = mutants_of_instructions()
        count = itertools.count()
        for module in modules:
            for function, place, found in mutants_of(module, count):
                self.places.append((function, place))
                self.mutants += found
        self.mutants = [mutant for mutant in self.mutants if chosen(mutant.name)]
        self.survivors: list[str] = []
        self.queue = -1  # numbers of the mutants that no process has taken
        self.killers: dict[str, list[int]] = defaultdict(list)
        self.current: Any = None  # the test that runs, in memory that processes share

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        machines.LARGEST_RUN = LARGEST_RUN
        self.items = session.items
        self._record()
        gc.freeze()
        self.queue, entrance = os.pipe()
        for number in range(len(self.mutants)):
            os.write(entrance, number.to_bytes(4, "little"))
        os.close(entrance)
        self.survivors = sorted(name for names in self._in_parallel(self._hunt) for name in names)
        return True

    def _passes(self, number: int) -> bool:
        return not any(report.failed for report in runtestprotocol(self.items[number], log=False, nextitem=None))

    def _in_parallel(self, work: Callable[[int], Any]) -> list[Any]:
        """Runs work(job) in a process for each job; returns what each returned."""
        children = []
        for job in range(self.jobs):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    result = work(job)
                except BaseException:
                    result = traceback.format_exc()
                with os.fdopen(writer, "wb") as file:
                    file.write(pickle.dumps(result))
                os._exit(0)
            os.close(writer)
            children.append((child, reader))
        results = []
        for child, reader in children:
            with os.fdopen(reader, "rb") as file:
                results.append(pickle.loads(file.read()))
            os.waitpid(child, 0)
        errors = [result for result in results if isinstance(result, str)]
        if errors:
            raise RuntimeError("\n".join(errors))
        return results

    def _record(self) -> None:
        """Notes which tests run each place, and with which values of the expressions."""

        def saw(number: int, which: int, value: Any) -> Any:
            try:
                self.ran.add((number, which, bool(value)))
            except ValueError:  # an array, which only the last operand can be
                self.ran.update({(number, which, False), (number, which, True)})
            return value

        vars(builtins).update(__ran__=self.ran.add, __saw__=saw)

        def work(job: int) -> list[tuple[int, set[Any], float]]:
            bind = operation.bind

            def recording(instruction: Any) -> Any:
                self.ran.add(instruction.name)
                return bind(instruction)

            vars(machines)["bind"] = recording
            for number, (_, place) in enumerate(self.places):
                place.record(number)
            for function in {id(function): function for function, _ in self.places}.values():
                function.install()
            found = []
            for number in range(job, len(self.items), self.jobs):
                clear_caches()
                self.ran.clear()
                begin = time.process_time()
                assert self._passes(number), f"{self.items[number].nodeid} fails without a mutant"
                found.append((number, set(self.ran), time.process_time() - begin))
            return found

        tests: dict[Any, list[int]] = defaultdict(list)
        cases: Counter[Any] = Counter()
        cost = {}
        for number, ran, seconds in sorted(run for runs in self._in_parallel(work) for run in runs):
            for where in ran:
                tests[where].append(number)
            # One case of each function first, as other cases of it tend to find the same.
            function = self.items[number].function
            cost[number] = cases[function], seconds
            cases[function] += 1
        for mutant in self.mutants:
            mutant.tests = sorted(tests[mutant.where], key=cost.__getitem__)

    def _hunt(self, job: int) -> list[str]:
        """The mutants that no test finds, of those that this process takes."""
        self.current = multiprocessing.sharedctypes.RawValue("i")
        left = []
        while number := os.read(self.queue, 4):
            mutant = self.mutants[int.from_bytes(number, "little")]
            if not self._is_found(mutant):
                left.append(mutant.name)
        return left

    def _is_found(self, mutant: Mutant) -> bool:
        # First the tests that have found other mutants of the function.
        killers = self.killers[mutant.function]
        covering = set(mutant.tests)
        tests = [number for number in killers if number in covering]
        tests += [number for number in mutant.tests if number not in tests]
        current = self.current
        child = os.fork()
        if child == 0:
            code = 2
            try:
                gc.disable()  # a collection would copy the parent's memory
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                clear_caches()
                mutant.apply()
                code = 0
                for number in tests:
                    current.value = number
                    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
                    if not self._passes(number):
                        code = 1
                        break
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # A signal: a test never ends, or it took the process down.
        assert code <= 1, f"the mutant could not be made: {mutant.name}"
        if code and current.value not in killers:
            killers.insert(0, current.value)
        return code != 0

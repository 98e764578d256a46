"""Statements without loops: assignment, if, return, break, continue, assert; and blocks, where paths fork and join."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from kiln.errors import CompilationError, StaticAssertionError
from kiln.frontend import scope as scopes
from kiln.frontend.scan import absorb, is_constexpr
from kiln.frontend.struct import constexpr_fields
from kiln.frontend.syntax import OPERATORS
from kiln.frontend.walker import Walker
from kiln.language import semantic, types, values


class Statements(Walker):
    """The `visit_…` methods of statements other than loops."""

    # -- blocks ------------------------------------------------------------------------------

    def visit_block(self, statements: list[ast.stmt]) -> None:
        """Statements in order. After one that may have left the block, the rest runs only where it has not."""
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(statement, ast.If) and rest:
                whole = absorb(statement, rest)
                if whole is not None:
                    self.visit(whole)
                    return
            self.visit(statement)
            left = scopes.exit_flag(self.emitter, self.scope)
            if left is True:
                return
            if left is not False and rest:
                self.visit(ast.copy_location(_Guarded(left, rest), statement))
                return

    def visit__Guarded(self, node: _Guarded) -> None:
        self.guard(node.flag, lambda: self.visit_block(node.rest), (node, node.rest[0]))

    def guard(self, left: int, rest: Callable[[], None], nodes: tuple[ast.AST, ast.AST]) -> None:
        """Emits the rest of a block, by a function, under the condition that no earlier statement left the block."""
        pending = [f for f in scopes.FLAGS if not isinstance(self.scope[f], values.constexpr)]

        def has_left() -> None:
            self.scope[scopes.LEFT] = scopes.TRUE
            causes = [flag for flag in pending if flag != scopes.LEFT]
            if len(causes) == 1:
                self.scope[causes[0]] = scopes.TRUE

        def stays() -> None:
            for flag in pending:
                self.scope[flag] = scopes.FALSE
            rest()

        self.fork(left, has_left, stays, nodes, ("after an earlier exit", "in the rest of the block"))

    def fork(
        self,
        condition: int,
        then: Callable[[], None],
        orelse: Callable[[], None],
        nodes: tuple[ast.AST, ast.AST],
        labels: tuple[str, str] = ("when the condition is true", "when the condition is false"),
    ) -> None:
        """Emits an scf.if whose branches are emitted by two functions, and merges their scopes."""
        before = self.scope
        branches = []
        for emit, node, label in zip((then, orelse), nodes, labels, strict=False):
            self.scope = dict(before)
            self.emitter.begin_region()
            emit()
            branches.append(scopes.Branch(self.emitter.end_region(), self.scope, label, self.range(node)))
        self.scope = scopes.join(
            self.emitter, "scf.if", [condition], before, branches[0], branches[1], self._needed_after_exit
        )

    def _needed_after_exit(self, returned: bool) -> set[str] | None:
        if returned:
            return set()
        return self.carried[-1] if self.carried else None

    def visit_If(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            self.visit_block(node.body if condition else node.orelse)
            return
        self.fork(
            condition,
            lambda: self.visit_block(node.body),
            lambda: self.visit_block(node.orelse),
            (node.body[0], node.orelse[0] if node.orelse else node.test),
            ("in the `if` branch", "in the `else` branch" if node.orelse else "when the condition is false"),
        )

    # -- leaving -----------------------------------------------------------------------------

    def visit_Return(self, node: ast.Return) -> None:
        value = values.constexpr(None) if node.value is None else self.visit(node.value)
        if self.is_kernel and values.unwrap(value) is not None:
            raise CompilationError(
                f"expected a kernel to return nothing (because it has no caller to give it to), got"
                f" {scopes.describe(value)}",
                hint="write the result to memory with kl.store",
            )
        self.returns.append((node, scopes.describe(value)))
        if isinstance(value, (types.type_, values.tensor, values.tuple, values.constexpr, values.tensor_descriptor)):
            self.scope[scopes.RESULT] = value
        else:
            self.scope[scopes.RESULT] = self.value(value)
        self._exit(scopes.RETURNED)

    def visit_Break(self, node: ast.Break) -> None:
        self._exit(scopes.BROKE)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._exit(scopes.SKIPPED)

    def _exit(self, cause: str) -> None:
        self.scope[cause] = self.scope[scopes.LEFT] = scopes.TRUE

    # -- assignment --------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.assign(node.target, None)
            return
        current = self.visit(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        self.assign(node.target, self.value(semantic.binary(OPERATORS[type(node.op)], current, self.visit(node.value))))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not is_constexpr(node.annotation):
            if node.value is not None:
                self.assign(node.target, self.visit(node.value))
            return
        if node.value is None:
            raise CompilationError("expected a value for a constexpr (because it never changes), got none")
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.check_constant(node.target, True)
            if isinstance(value, types.type_):
                value = values.constexpr(value)
            # A run-time value is kept, as in Triton: an operation that needs a constant raises the error.
            if scopes.is_static(value):
                self.constants[node.target.id] = (node.target, value)
            else:
                self.annotated[node.target.id] = node.target
        self.bind(node.target, value)

    def assign(self, target: ast.expr, value: Any) -> None:
        """Assignment by `=`: a plain number becomes a scalar of the kernel, which loops and branches may change."""
        if isinstance(target, ast.Name):
            self.check_constant(target, False)
            if scopes.is_static_number(value):
                self.settled[target.id] = target
        self.bind(target, self.settle(value))

    def check_constant(self, target: ast.AST, annotated: bool) -> None:
        """Checks that a constexpr is assigned by one statement; in an unrolled loop, each time is a new constant."""
        name = getattr(target, "id", "")
        place, value = self.constants.get(name, (None, None))
        if place is target:
            return
        held = self.scope.get(name, scopes.MISSING)
        if place is not None and held is value:
            error = CompilationError(
                f"expected {name} to be assigned once (because it is a constexpr), got another assignment",
                hint="give the new value another name"
                if annotated
                else f"drop the annotation of {name}, or use another name",
            )
            error = self.locate(error, target).note(f"{name} became a constexpr here", self.range(place))
            if annotated:
                raise error
            self.refuse_slip(error, "from here on it is a variable like others, as Triton has it", target)
            del self.constants[name]
            return
        if annotated and held is not scopes.MISSING and not isinstance(held, scopes.Undefined):
            if self.annotated.get(name) is target:
                return
            raise self.locate(
                CompilationError(
                    f"expected a new name for a constexpr (because it is assigned once), got {name}, which has a value",
                    hint="give the constexpr another name",
                ),
                target,
            )

    def settle(self, value: Any) -> Any:
        if isinstance(value, values.tuple) and value.cls is not None:
            known = constexpr_fields(value.cls)
            return value.like([v if k else self.settle(v) for v, k in zip(value.values, known, strict=True)])
        if isinstance(value, (values.tuple, tuple, list)):
            return values.tuple([self.settle(item) for item in value], getattr(value, "fields", None))
        if scopes.is_static_number(value):
            return semantic.to_tensor(value)
        return value

    def bind(self, target: ast.expr, value: Any) -> None:
        """Binds a target (a name or a tuple of targets) to an unchanged value."""
        if isinstance(target, ast.Name):
            self.scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        else:
            raise self.locate(self._bad_target(target), target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        value = values.unwrap(value)
        if not isinstance(value, (values.tuple, tuple, list)):
            error = CompilationError(
                f"expected a tuple to unpack into {len(target.elts)} names, got {scopes.describe(value)}",
                hint="tiles do not unpack: use kl.split, or kl.gather for single elements",
            )
            raise self.locate(error, target)
        items = list(value)
        stars = [i for i, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
        count = len(target.elts)
        if stars and len(items) >= count - 1:
            start, after = stars[0], count - stars[0] - 1
            middle = values.tuple(items[start : len(items) - after])
            items = [*items[:start], middle, *items[len(items) - after :]]
        if len(items) != count:
            raise self.locate(
                CompilationError(f"expected {count} values to unpack, got {len(items)}: {scopes.describe(value)}"),
                target,
            )
        for element, item in zip(target.elts, items, strict=False):
            self.bind(element.value if isinstance(element, ast.Starred) else element, item)

    def _bad_target(self, target: ast.expr) -> CompilationError:
        if isinstance(target, ast.Subscript):
            return CompilationError(
                "expected a name to assign to (because tiles are values: their elements do not change), got a"
                " subscript",
                hint="write memory with kl.store; choose elements with kl.where",
            )
        owner = self.visit(target.value) if isinstance(target, ast.Attribute) else None
        if isinstance(owner, values.tuple) and owner.cls is not None and isinstance(target, ast.Attribute):
            name, field = owner.cls.__name__, target.attr
            written = ast.unparse(target.value)
            return CompilationError(
                f"expected a name to assign to (because a struct is a value: its fields do not change), got {field} of"
                f" {written}, a {name}",
                hint=f"make another: {written} = {written}._replace({field}=...)"
                if field in owner.cls._fields
                else f"its fields are {', '.join(owner.cls._fields)}",
            )
        return CompilationError(
            "expected a name to assign to, got an attribute", hint="values of a kernel have no attributes to set"
        )

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise self.locate(CompilationError("expected a name to delete, got an element or an attribute"), target)
            self.visit(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            self.scope[target.id] = scopes.Undefined(
                f"{{name}} was deleted in line {target.lineno}", notes=[("deleted here", self.range(target))]
            )

    # -- the rest ----------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.visit(node.value)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        import kiln.language

        test = self.visit(node.test)
        message = values.constexpr("") if node.msg is None else self.visit(node.msg)
        if isinstance(test, values.tensor):
            kiln.language.device_assert(test, message)
        elif not self.truth(test):
            text = values.unwrap(message)
            text = text if isinstance(text, str) else scopes.describe(text)
            error = StaticAssertionError("assertion failed at compile time" + (f": {text}" if text else ""))
            raise self.locate(error, node.test)


class _Guarded(ast.stmt):
    """The rest of a block, to be executed if `flag` (the handle of an i1) is false."""

    _fields = ()
    _attributes = ("lineno", "col_offset", "end_lineno", "end_col_offset")

    def __init__(self, flag: int, rest: list[ast.stmt]):
        super().__init__()
        self.flag = flag
        self.rest = rest

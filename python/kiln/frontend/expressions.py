"""Expressions: names, attributes, operators, subscripts, tuples, comprehensions, conditional expressions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kiln.errors import CompilationError, near_match
from kiln.frontend import python_builtins, suggestions
from kiln.frontend import scope as scopes
from kiln.frontend import struct as structs
from kiln.frontend.arguments import culprit_node
from kiln.frontend.calls import Launch, substitute
from kiln.frontend.function import BoundFunction, KernelFunction, plain
from kiln.frontend.syntax import OPERATORS
from kiln.frontend.walker import Walker
from kiln.language import loops, semantic, types, values


class Expressions(Walker):
    """The `visit_…` methods of expressions."""

    # -- names -------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> Any:
        name = node.id
        found = self.scope.get(name, scopes.MISSING)
        if isinstance(found, scopes.LastIndex):
            return found.make()
        if isinstance(found, scopes.Undefined):
            raise found.error(name)
        if found is not scopes.MISSING:
            return found
        if name in self.locals:
            raise CompilationError(
                f"{name} is read before it is assigned", hint=f"assign {name} on every path before this line"
            )
        capture = self.function.lookup(name)
        if capture is not None:
            if self.function.annotated_constexpr(name):
                return self.value(plain(capture.value))
            return self.outside(name, capture.value)
        if name in python_builtins.TABLE:
            return python_builtins.TABLE[name]
        if hasattr(builtins, name):
            hint = suggestions.of_builtin(name) or substitute(name)
            raise CompilationError(f"{name} is a Python builtin that kernels do not have", hint=hint)
        candidates = [n for n in [*self.scope, *self.function.fn.__globals__] if n.isidentifier()]
        match = near_match(name, [*candidates, *python_builtins.TABLE])
        raise CompilationError(f"{name} is not defined", hint=f"did you mean {match}?" if match else None)

    def outside(self, name: str, value: Any) -> Any:
        """A global or a variable of an enclosing function; only values that cannot change while kernels use them."""
        if isinstance(value, (values.constexpr, KernelFunction, BoundFunction, ModuleType, type)) or value is None:
            return self.value(value)
        if isinstance(value, (types.type_, values.tuple)) or callable(value):
            return value
        if isinstance(value, tuple) and all(
            isinstance(item, (values.constexpr, types.type_, KernelFunction)) for item in value
        ):
            return self.value(value)
        raise CompilationError(
            f"expected a constexpr global (because a kernel is compiled once and a later change would go unnoticed),"
            f" got {name}, a Python {type(value).__name__}",
            hint=f"write {name} = kl.constexpr({value!r}) where it is defined, or pass it as an argument"
            if isinstance(value, (bool, int, float, str)) and "." not in name
            else f"pass {name} as an argument",
        )

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.assign(node.target, self.visit(node.value))
        return self.visit(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        base, name = self.visit(node.value), node.attr
        try:
            value = python_builtins.attribute(base, name)
        except AttributeError as problem:
            raise self._no_attribute(base, name, problem) from None
        if isinstance(base, ModuleType):
            if not _is_language(base) and base.__name__ != "math":
                return self.outside(f"{base.__name__}.{name}", value)
            return self.value(value)
        return self.value(value)

    def _no_attribute(self, base: Any, name: str, problem: AttributeError) -> CompilationError:
        if isinstance(base, ModuleType) and hasattr(base, "__kiln_names__"):
            return CompilationError(str(problem))  # from one of the Triton modules; it gives the reason
        if isinstance(base, ModuleType):
            owner = f"module {base.__name__}"
        elif isinstance(base, values.constexpr):
            owner = f"the constexpr {base.value!r}"
        elif isinstance(base, values.tuple) and base.cls is not None:
            match = near_match(name, structs.member_names(base.cls))
            hint = f"did you mean {match}?" if match else f"its fields are {', '.join(base.cls._fields)}"
            return CompilationError(f"a {base.cls.__name__} has no field or method {name}", hint=hint)
        elif isinstance(base, values.tuple):
            owner = "a tuple"
        elif isinstance(base, values.tensor_descriptor):
            owner = "a tensor descriptor"
        elif isinstance(base, values.tensor):
            kind = "pointer" if suggestions.is_pointer(base) else "tile" if base.type.is_block() else "scalar"
            owner = f"a {kind} of type {base.type}"
        else:
            owner = scopes.describe(base)
        return CompilationError(f"{owner} has no attribute {name}", hint=suggestions.attribute(base, name))

    # -- literals ----------------------------------------------------------------------------

    def visit_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (complex, bytes)):
            raise CompilationError(f"expected a number, a string, True, False or None, got {node.value!r}")
        return node.value if node.value is Ellipsis else values.constexpr(node.value)

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> Any:
        return values.tuple(self.elements(node.elts))

    visit_List = visit_Tuple

    def elements(self, nodes: list[ast.expr]) -> list[Any]:
        """The values of a list of expressions, with `*tuple` spread out."""
        result: list[Any] = []
        for node in nodes:
            if not isinstance(node, ast.Starred):
                result.append(self.visit(node))
                continue
            result += self.static_items(self.visit(node.value), node.value)
        return result

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        # Before Python 3.12 the positions of the parts are unknown, so an error is about the whole.
        parts = [
            self.visit_FormattedValue(p) if isinstance(p, ast.FormattedValue) else self.visit(p) for p in node.values
        ]
        return values.constexpr("".join(str(part.value) for part in parts))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        value = self.visit(node.value)
        if isinstance(value, values.tensor):
            raise CompilationError(
                f"expected a constexpr in an f-string (because the text is fixed at compile time), got a value of type"
                f" {value.type}",
                hint='print values of tensors with kl.device_print("name", x)',
            )
        spec = str(self.visit(node.format_spec).value) if node.format_spec is not None else ""
        text = values.unwrap_deep(value)
        if node.conversion >= 0:
            convert: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
            text = convert[chr(node.conversion)](text)
        try:
            return values.constexpr(format(text, spec))
        except (TypeError, ValueError):
            got = scopes.describe(value)
            raise CompilationError(f"expected a value that format {spec!r} accepts, got {got}") from None

    # -- operators ---------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._binary(node, self.visit(node.left), self.visit(node.right))

    def _binary(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        try:
            return self.value(semantic.binary(OPERATORS[type(node.op)], left, right))
        except CompilationError as error:
            self._blame(error, (node.left, left), (node.right, right))
            raise

    def _blame(self, error: CompilationError, *operands: tuple[ast.AST, Any]) -> None:
        """Locates an error about one operand at that operand, unless a position inside it is known."""
        place = None if error.frames else culprit_node(error, operands)
        if place is not None:
            self.locate(error, place)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            if isinstance(operand, values.tensor):
                return semantic.logical_not(operand)
            return values.constexpr(not self.truth(operand))
        return self.value(semantic.unary(OPERATORS[type(node.op)], operand))

    def visit_Compare(self, node: ast.Compare) -> Any:
        if any(self._is_bare(operand) for operand in node.comparators[:-1]):
            raise self._missing_parentheses(node)
        left = self._operand(node, node.left)
        result: Any = None
        for op, right_node in zip(node.ops, node.comparators, strict=False):
            right = self._operand(node, right_node)
            try:
                step = self._compare(op, left, right)
            except CompilationError as error:
                self._blame(error, (right_node, right), (node.left, left))
                raise
            result = step if result is None else self._and(result, step)
            if not isinstance(result, values.tensor) and not self.truth(result):
                return result
            left = right
        return result

    def _is_bare(self, node: ast.expr) -> bool:
        """Whether an operand of a comparison is `a & b` or `a | b` without parentheses around it."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            return False
        source = self.function.source
        first, last = node.lineno, node.end_lineno or node.lineno
        before = source.line(first).encode()[: node.col_offset].rstrip()
        while not before and first > source.first_line:
            first -= 1
            before = source.line(first).encode().rstrip()
        after = source.line(last).encode()[node.end_col_offset or 0 :].lstrip()
        while not after and last < source.last_line:
            last += 1
            after = source.line(last).encode().lstrip()
        return not (before.endswith(b"(") and after.startswith(b")"))

    def _operand(self, comparison: ast.Compare, node: ast.expr) -> Any:
        """The value of an operand of a comparison. `x < n & mask` compares with `n & mask`, surely by mistake."""
        if not isinstance(node, ast.BinOp) or not self._is_bare(node):
            return self.visit(node)
        with self.at(node):
            left, right = self.visit(node.left), self.visit(node.right)
            if _is_mask(left) != _is_mask(right):
                error = self._missing_parentheses(comparison)
                self.refuse_slip(error, "it is taken as it is written, as Triton does", comparison)
            return self._binary(node, left, right)

    def _missing_parentheses(self, node: ast.Compare) -> CompilationError:
        first = next(n for n in (node.left, *node.comparators) if self._is_bare(n))
        symbol = "&" if isinstance(first.op, ast.BitAnd) else "|"  # type: ignore[attr-defined]
        error = CompilationError(
            f"expected parentheses around comparisons that {symbol} joins (because {symbol} binds tighter: this"
            f" compares with {ast.unparse(first)}), got {ast.unparse(node)}",
            hint=f"write {_with_parentheses(node)}",
        )
        return self.locate(error, node)

    def _compare(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        if isinstance(op, (ast.Is, ast.IsNot)):
            a, b = values.unwrap(left), values.unwrap(right)
            same = a is b or (isinstance(a, types.type_) and isinstance(b, types.type_) and a == b)
            return values.constexpr(same == isinstance(op, ast.Is))
        if isinstance(op, (ast.In, ast.NotIn)):
            items = values.unwrap(right)
            if not isinstance(items, (values.tuple, str)):
                raise CompilationError(f"expected a tuple or a string to search in, got {scopes.describe(right)}")
            sought = values.unwrap(left)
            if isinstance(items, str):
                found = isinstance(sought, str) and sought in items
            else:
                found = any(scopes.same_static(left, item) or _equal(sought, item) for item in items)
            return values.constexpr(found == isinstance(op, ast.In))
        if isinstance(left, values.tensor) or isinstance(right, values.tensor):
            return semantic.compare(OPERATORS[type(op)], left, right)
        return self._compare_static(op, left, right)

    def _compare_static(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        a, b = values.unwrap_deep(left), values.unwrap_deep(right)
        symbol = OPERATORS[type(op)]
        try:
            return values.constexpr(bool(values.FOLD[symbol](a, b)))
        except TypeError:
            raise CompilationError(
                f"expected operands that {symbol} can compare, got {scopes.describe(left)} and {scopes.describe(right)}"
            ) from None

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        result = self.visit(node.values[0])
        for operand in node.values[1:]:
            if not isinstance(result, values.tensor):
                # Known at compile time: as in Python, the last operand evaluated is the result.
                if self.truth(result) != is_and:
                    return result
                result = self.visit(operand)
                continue
            right = self.visit(operand)
            if not isinstance(right, values.tensor):
                right = values.constexpr(self.truth(right))
            result = self._and(result, right) if is_and else semantic.logical_or(result, right)
        return result

    def _and(self, left: Any, right: Any) -> Any:
        if not isinstance(left, values.tensor):
            return right if self.truth(left) else left
        return semantic.logical_and(left, right)

    def truth(self, value: Any) -> bool:
        """The truth value, as in Python, of a value known at compile time."""
        if isinstance(value, values.constexpr):
            return self.truth(value.value) if isinstance(value.value, values.tuple) else bool(value.value)
        return len(value) > 0 if isinstance(value, values.tuple) else bool(value)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.visit(node.body if condition else node.orelse)
        results: list[Any] = []

        def side(expression: ast.expr) -> Callable[[], None]:
            def emit() -> None:
                results.append(self.visit(expression))
                self.scope[_VALUE] = results[-1]

            return emit

        self.fork(condition, side(node.body), side(node.orelse), (node.body, node.orelse))
        value = self.scope.pop(_VALUE)
        if isinstance(value, scopes.Undefined):
            x, y = map(scopes.describe, results)
            raise CompilationError(
                f"expected both sides of the conditional expression to have one type, got {x} and {y}",
                hint="cast one side with .to(...); to choose between tiles element by element use kl.where",
            )
        return value

    def condition(self, node: ast.expr) -> bool | int:
        """The condition of an `if` or `while`: a bool if known at compile time, or the handle of an i1."""
        value = self.visit(node)
        if isinstance(value, loops.condition):
            self.test_hints = {"tile.no_licm": "unit"} if value.disable_licm else {}
            value = value.condition
        if not isinstance(value, values.tensor):
            return self.truth(value)
        with self.at(node):
            return semantic.condition(value)

    # -- subscripts --------------------------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        base = self.visit(node.value)
        kernel = plain(base)
        if isinstance(kernel, KernelFunction) or isinstance(getattr(kernel, "fn", None), KernelFunction):
            return Launch(kernel)
        if isinstance(node.slice, ast.Tuple):
            index: Any = tuple(self.elements(node.slice.elts))
        else:
            index = self.visit(node.slice)
        if isinstance(base, values.tuple) and not len(base) and isinstance(node.value, ast.Attribute):
            if node.value.attr == "shape":
                raise self._no_sides(node.value)
        return self.value(semantic.subscript(base, index))

    def _no_sides(self, node: ast.Attribute) -> CompilationError:
        """The error for `x.shape[0]` of a value without sides."""
        owner = self.visit(node.value)
        hint = suggestions.of_array("shape") if suggestions.is_pointer(owner) else None
        return CompilationError(f"expected a tile to take a side of, got {scopes.describe(owner)}", hint=hint)

    def visit_Slice(self, node: ast.Slice) -> Any:
        return slice(*(None if part is None else self.visit(part) for part in (node.lower, node.upper, node.step)))

    # -- comprehensions ----------------------------------------------------------------------

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        result: list[Any] = []

        def level(generators: list[ast.comprehension]) -> None:
            if not generators:
                result.append(self.visit(node.elt))
                return
            generator = generators[0]
            for item in self.static_items(self.visit_iterable(generator.iter), generator.iter):
                self.bind(generator.target, item)
                if all(self._static_filter(test) for test in generator.ifs):
                    level(generators[1:])

        names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        outer = {name: self.scope[name] for name in names if name in self.scope}
        level(node.generators)
        for name in names:
            self.scope.pop(name, None)
        self.scope.update(outer)
        return values.tuple(result)

    visit_GeneratorExp = visit_ListComp

    def _static_filter(self, test: ast.expr) -> bool:
        condition = self.condition(test)
        if isinstance(condition, bool):
            return condition
        error = CompilationError(
            "expected a constexpr condition in a comprehension (because it decides how long the tuple is), got a value"
            " known only at run time",
            hint="keep every element and choose with kl.where",
        )
        raise self.locate(error, test)

    def visit_iterable(self, node: ast.expr) -> Any:
        """The iterable of a comprehension, where `range` is evaluated at compile time."""
        if isinstance(node, ast.Call):
            loop = self.loop_call(node)
            if loop is not None:
                return loop.static_indices()
        return self.visit(node)

    def static_items(self, value: Any, node: ast.expr, hint: str | None = None) -> list[Any]:
        """The elements of a tuple, to be handled one by one at compile time."""
        value = values.unwrap(value)
        if isinstance(value, (values.tuple, list, tuple)):
            return [self.value(item) for item in value]
        if isinstance(value, str):
            return [values.constexpr(character) for character in value]
        error = CompilationError(
            f"expected a tuple (because its elements are visited at compile time), got {scopes.describe(value)}",
            hint=hint,
        )
        raise self.locate(error, node)


_VALUE = "conditional value"


def _is_mask(value: Any) -> bool:
    return isinstance(value, values.tensor) and value.type.scalar.is_bool()


def _with_parentheses(node: ast.Compare) -> str:
    """A chain of comparisons as its author meant it: `&` and `|` join the comparisons."""

    def leaves(operand: ast.expr) -> tuple[list[ast.expr], list[str]]:
        if not isinstance(operand, ast.BinOp) or not isinstance(operand.op, (ast.BitAnd, ast.BitOr)):
            return [operand], []
        parts, joints = leaves(operand.left)
        return [*parts, operand.right], [*joints, "&" if isinstance(operand.op, ast.BitAnd) else "|"]

    def unparse(part: ast.expr) -> str:
        text = ast.unparse(part)
        return f"({text})" if isinstance(part, (ast.Compare, ast.BoolOp, ast.IfExp)) else text

    terms: list[list[str]] = [[]]
    joints: list[str] = []
    for position, operand in enumerate((node.left, *node.comparators)):
        parts, between = leaves(operand)
        if position:
            terms[-1].append(OPERATORS.get(type(node.ops[position - 1]), "in"))
        terms[-1].append(unparse(parts[0]))
        terms += [[unparse(part)] for part in parts[1:]]
        joints += between
    written = [f"({' '.join(term)})" if len(term) > 1 else term[0] for term in terms]
    return written[0] + "".join(f" {joint} {term}" for joint, term in zip(joints, written[1:], strict=True))


def _equal(sought: Any, item: Any) -> bool:
    item = values.unwrap(item)
    if isinstance(sought, values.tensor) or isinstance(item, values.tensor):
        return sought is item
    try:
        return bool(sought == item)
    except Exception:
        return False


def _is_language(module: ModuleType) -> bool:
    """Whether the module's names belong to the language: Kiln's modules, and those that export them as Triton's."""
    return module.__name__.split(".")[0] == "kiln" or hasattr(module, "__kiln_names__")

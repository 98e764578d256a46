"""The walk over one function's body: the shared state of walker.py and a part for each kind of syntax."""

from __future__ import annotations

import ast
from typing import Any

from kiln.errors import CompilationError
from kiln.frontend import scope as scopes
from kiln.frontend import syntax
from kiln.frontend.calls import Calls
from kiln.frontend.expressions import Expressions
from kiln.frontend.loops import Loops
from kiln.frontend.statements import Statements
from kiln.language import values


class Visitor(Expressions, Statements, Loops, Calls):
    """Emits the body of a function."""

    def run(self) -> Any:
        """Emits the whole body; returns the function's return value."""
        definition = self.function.tree
        self.node = definition
        end = ast.Return(value=None, lineno=definition.lineno, col_offset=definition.col_offset)
        self.visit_block(syntax.with_end(definition.body, end, definition))
        result = self.scope.get(scopes.RESULT, values.constexpr(None))
        if isinstance(result, scopes.Undefined):
            raise self._returns_differ(definition) or self.locate(result.error("the result"), definition)
        return result

    def _returns_differ(self, definition: ast.FunctionDef) -> CompilationError | None:
        """The error about the first two returns with different types."""
        first, gave = self.returns[0]
        node, gives = next(((node, text) for node, text in self.returns if text != gave), (first, gave))
        if node is first:
            return None
        at_end = node not in set(ast.walk(definition))
        error = CompilationError(
            f"expected every return to give the same type (because the caller of {definition.name} gets one value), got"
            f" {gives} {'at the end of the function' if at_end else 'here'} and {gave} in line {first.lineno}",
            hint="return a value there too" if at_end else "return values of one type on every path",
        )
        if not at_end:
            error.note("the other return is here", self.range(first))
        return self.locate(error, first if at_end else node)

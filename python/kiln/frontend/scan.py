"""Syntactic queries that need no types: which names a block assigns, and whether and how control leaves it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence


def assigned_names(statements: Iterable[ast.AST]) -> dict[str, ast.AST]:
    """Names assigned anywhere in the statements, in order, each with the first node that assigns it.

    Variables of comprehensions are local to them. A name that is only ever declared `: kl.constexpr` does not count: it
    is a new constant each time.
    """
    names: dict[str, ast.AST] = {}

    def walk(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return
        if isinstance(node, ast.AnnAssign) and is_constexpr(node.annotation):
            if node.value is not None:
                walk(node.value)
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.setdefault(node.id, node)
        for child in ast.iter_child_nodes(node):
            walk(child)

    for statement in statements:
        walk(statement)
    return names


def is_constexpr(annotation: ast.expr) -> bool:
    """Whether an annotation is written `constexpr` or `<module>.constexpr`."""
    if isinstance(annotation, ast.Attribute):
        return annotation.attr == "constexpr"
    if isinstance(annotation, ast.Name):
        return annotation.id == "constexpr"
    text = annotation.value if isinstance(annotation, ast.Constant) else None
    return isinstance(text, str) and text.rsplit(".", 1)[-1] == "constexpr"


def ends(statements: Sequence[ast.stmt]) -> bool:
    """Whether no execution falls off the end of the block."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, (ast.Return, ast.Break, ast.Continue)):
        return True
    return isinstance(last, ast.If) and ends(last.body) and ends(last.orelse)


def leaves_loop(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body has a `break` of its own or a `return`."""

    def walk(node: ast.AST, inner: bool) -> bool:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inner):
            return True
        inner = inner or isinstance(node, (ast.For, ast.While))
        return any(walk(child, inner) for child in ast.iter_child_nodes(node))

    return any(walk(statement, False) for statement in body)


def absorb(node: ast.If, rest: list[ast.stmt]) -> ast.If | None:
    """`if c: …return` followed by `rest` means `if c: …return / else: rest`: no predicate is needed.

    None if neither branch always leaves: then the rest may be reached from both.
    """
    then_ends, else_ends = ends(node.body), ends(node.orelse)
    if then_ends and else_ends:
        return node
    if then_ends:
        return _with(node, node.body, [*node.orelse, *rest])
    if else_ends:
        return _with(node, [*node.body, *rest], node.orelse)
    return None


def _with(node: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.If:
    return ast.copy_location(ast.If(test=node.test, body=body, orelse=orelse), node)


def with_end(statements: Sequence[ast.stmt], end: ast.stmt, owner: ast.AST) -> list[ast.stmt]:
    """The block with an explicit end (`return`, `continue`), so that every path through it leaves in the same way."""
    body = list(statements)
    if ends(body):
        return body
    place = body[-1] if body else owner
    if isinstance(place, ast.stmt):
        # Locate it at the end of the block, not over a whole compound statement.
        end.lineno = end.end_lineno = place.end_lineno or place.lineno  # type: ignore[attr-defined]
        end.col_offset = end.end_col_offset = place.end_col_offset or place.col_offset  # type: ignore[attr-defined]
    return [*body, end]

"""Finds the arguments of a kernel that become strides of tensor descriptors, as far as the source shows it.

A launch examines more divisors of those: copy engines read rows that start at multiples of 16 bytes. They are found by
name, through assignments and through called jit functions. For a stride that is missed, only divisibility by 16 is
known; a false positive costs a specialisation. Neither makes code wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from kiln.errors import KilnError

if TYPE_CHECKING:
    import ast

    from kiln.frontend.function import KernelFunction

MAKER = "make_tensor_descriptor"
STRIDES = 2  # its position among the arguments


class Strides(NamedTuple):
    """Names of parameters, and names of fields of named tuples among them."""

    names: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()


def descriptor_strides(function: KernelFunction) -> Strides:
    """The parameters and fields from which `function`, or a function it calls, computes strides of descriptors."""
    try:
        functions = {id(function): function}
        functions.update((id(c.value), c.value) for c in function.captures if hasattr(c.value, "captures"))
        if not any(MAKER in each.fn.__code__.co_names for each in functions.values()):
            return Strides()
        return _strides_of(function, {})
    except KilnError:
        return Strides()  # compiling reports what is wrong with the source


def _strides_of(function: KernelFunction, known: dict[int, Strides]) -> Strides:
    import ast

    if id(function) in known:
        return known[id(function)]
    known[id(function)] = Strides()  # ends the recursion for a function that calls itself
    names: set[str] = set()
    fields: set[str] = set()
    made_of: list[tuple[set[str], Strides]] = []
    parts: list[ast.AST | None]
    for node in ast.walk(function.tree):
        if isinstance(node, ast.Call):
            if getattr(node.func, "attr", getattr(node.func, "id", "")) == MAKER:
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                parts = [given.get("strides", node.args[STRIDES] if len(node.args) > STRIDES else None)]
            else:
                callee = _called(function, node.func)
                inner = _strides_of(callee, known) if callee is not None else Strides()
                fields |= inner.fields
                parts = [value for name, value in _bound(callee, node) if name in inner.names] if callee else []
            for part in filter(None, parts):
                found = _read_by(part)
                names |= found.names
                fields |= found.fields
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made_of.append((set().union(*(_read_by(target).names for target in targets)), _read_by(node.value)))
    while True:
        before = len(names) + len(fields)
        for made, value in made_of:
            if made & names:
                names |= value.names
                fields |= value.fields
        if len(names) + len(fields) == before:
            break
    known[id(function)] = Strides(frozenset(names), frozenset(fields))
    return known[id(function)]


def _read_by(node: ast.AST) -> Strides:
    """The names and the fields that an expression is computed from; `x.stride` is a field, and not all of x."""
    import ast

    names: set[str] = set()
    fields: set[str] = set()
    open_nodes = [node]
    while open_nodes:
        inner = open_nodes.pop()
        if isinstance(inner, ast.Name):
            names.add(inner.id)
        if isinstance(inner, ast.Attribute):
            fields.add(inner.attr)
            if isinstance(inner.value, ast.Name):
                continue
        open_nodes.extend(ast.iter_child_nodes(inner))
    return Strides(frozenset(names), frozenset(fields))


def _called(function: KernelFunction, node: ast.AST) -> KernelFunction | None:
    """The jit function named by the callee expression `node`: `f` or `module.f`."""
    import ast

    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in function.fn.__code__.co_varnames:
        return None
    found = function.lookup(node.id)
    value = found.value if found is not None else None
    for name in path:
        value = getattr(value, name, None) if isinstance(value, ModuleType) else None
    return value if hasattr(value, "captures") else None


def _bound(callee: KernelFunction, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """The parameters of `callee` with the expressions passed for them."""
    yield from zip(callee.arg_names, call.args, strict=False)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value

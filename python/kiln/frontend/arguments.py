"""Finds the expression of a call that an error is about; the caret points at it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import MethodType
from typing import Any

from kiln.errors import CompilationError
from kiln.frontend import struct as structs
from kiln.frontend.function import BoundFunction, KernelFunction
from kiln.language import values


def culprit_node(error: CompilationError, given: Iterable[tuple[ast.AST, Any]]) -> ast.AST | None:
    """The one of several (expression, value) pairs that an error is about; None if that is ambiguous."""
    if error.culprit is None:
        return None
    culprit = error.culprit[0]
    found: list[ast.AST] = []

    def search(node: ast.AST, value: Any) -> None:
        if value is culprit or values.unwrap(value) is culprit:
            found.append(node)
        elif isinstance(node, (ast.Tuple, ast.List)) and isinstance(value, values.tuple):
            if len(node.elts) == len(value) and not any(isinstance(e, ast.Starred) for e in node.elts):
                for element, item in zip(node.elts, value.values, strict=False):
                    search(element, item)

    for node, value in given:
        search(node, value)
    # A tensor's identity is unique, wherever it is named; equal numbers may be one Python object by chance.
    return found[0] if found and (len(found) == 1 or isinstance(culprit, values.tensor)) else None


def argument_node(node: ast.AST, function: Any, argument: str | None) -> ast.AST:
    """The expression that was passed for a parameter; the whole call if there is none."""
    if not isinstance(node, ast.Call) or argument is None:
        return node
    names: list[str] = []
    known: tuple[str, ...] = ()
    shift = 0
    if function is None:
        # The bounds of a range.
        names = ["stop"] if len(node.args) == 1 else ["start", "stop", "step"]
    elif isinstance(function, BoundFunction):
        names, shift = function.function.arg_names, 1
    elif isinstance(function, KernelFunction):
        names = function.arg_names
    elif structs.is_named_tuple(function):
        names = list(function._fields)
    elif isinstance(function, structs.Replace):
        names = list(function.value.fields or ())
    elif argument.isdigit():
        names = [str(i) for i in range(len(node.args))]
    else:
        code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
        names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
        shift = 1 if isinstance(function, MethodType) else 0
        if code is not None and code.co_kwonlyargcount:
            known += code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    for keyword in node.keywords:
        if keyword.arg == argument:
            # If the parameter does not exist, its name is at fault, not its value.
            return keyword.value if argument in names or argument in known else keyword
    index = names.index(argument) - shift if argument in names else -1
    plain_call = not any(isinstance(arg, ast.Starred) for arg in node.args)
    return node.args[index] if plain_call and 0 <= index < len(node.args) else node

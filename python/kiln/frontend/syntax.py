"""The names that messages use for syntax that kernels lack, and what to write instead."""

from __future__ import annotations

import ast

from kiln.frontend.scan import absorb, assigned_names, ends, is_constexpr, leaves_loop, with_end

__all__ = ["absorb", "assigned_names", "ends", "is_constexpr", "leaves_loop", "unsupported", "with_end"]

OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.UAdd: "+", ast.USub: "-", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip

_UNSUPPORTED: dict[str, tuple[str, str | None]] = {
    "Lambda": ("a lambda is", "write a function decorated with @kiln.jit at module level; only grids may be lambdas"),
    "FunctionDef": ("a function definition is", "move it to module level and decorate it with @kiln.jit"),
    "AsyncFunctionDef": ("async is", None),
    "ClassDef": ("a class is", "move it out of the kernel"),
    "With": ("`with` is", None),
    "AsyncWith": ("async is", None),
    "AsyncFor": ("async is", None),
    "Try": ("`try` is", "kernels have no exceptions: test the condition with if, or use kl.device_assert"),
    "TryStar": ("`try` is", "kernels have no exceptions: test the condition with if, or use kl.device_assert"),
    "Raise": ("`raise` is", "use kl.device_assert(condition, message), or kl.static_assert for what is known early"),
    "Import": ("`import` is", "import at the top of the module"),
    "ImportFrom": ("`import` is", "import at the top of the module"),
    "Global": ("`global` is", "pass the value as an argument, or store it to memory"),
    "Nonlocal": ("`nonlocal` is", "pass the value as an argument and return the new one"),
    "Dict": ("a dict is", "use a tuple, or separate names"),
    "DictComp": ("a dict is", "use a tuple, or separate names"),
    "Set": ("a set is", "use a tuple"),
    "SetComp": ("a set is", "use a tuple"),
    "Yield": ("`yield` is", "return a tuple"),
    "YieldFrom": ("`yield` is", "return a tuple"),
    "Await": ("async is", None),
    "Match": ("`match` is", "use if / elif"),
    "TypeAlias": ("a type alias is", "put it at module level"),
    "Starred": ("a starred expression is", "name the elements one by one"),
    "TemplateStr": ("a template string is", "use an f-string"),
}


def unsupported(node: ast.AST) -> tuple[str, str | None]:
    """("`try` is", hint) for syntax that has no meaning in a kernel."""
    name = type(node).__name__
    return _UNSUPPORTED.get(name, (f"this syntax ({name}) is", None))

"""Helpers of the front-end tests: compile a kernel given as text or function to IR, and check the IR."""

from __future__ import annotations

import itertools
import linecache
import re
from typing import Any

import kiln.language as kl
import pytest
from kiln._kiln import Module
from kiln.errors import CompilationError
from kiln.frontend import Parameter, emit
from kiln.frontend.function import KernelFunction, constexpr_function, jit

_counter = itertools.count()


def define(text: str, name: str = "kernel", **names: Any) -> KernelFunction:
    """The function `name` of a Python source text, compiled under a file name that `linecache` knows."""
    file = f"/kernels/test_{next(_counter)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"kl": kl, "jit": jit, "constexpr_function": constexpr_function, "__name__": "kernels", **names}
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    return namespace[name]


def parameters(**types: Any) -> list[Parameter]:
    """A str is the type of a run-time argument; a one-element list is a constexpr value."""
    return [
        Parameter(name, "constexpr", value=what[0]) if isinstance(what, list) else Parameter(name, "runtime", what)
        for name, what in types.items()
    ]


def ir(fn: KernelFunction | str, **types: Any) -> str:
    """The tile IR of a kernel, after checking that it parses back to the same text."""
    if isinstance(fn, str):
        fn = define(fn)
    module = emit(fn, parameters(**types))
    text = module.print()
    assert Module.parse(text).print() == text
    Module.parse(module.print(locations=True)).verify()
    Module.parse(module.print(generic=True)).verify()
    return text


def body(statements: str, **types: Any) -> str:
    """The IR of a kernel with these statements as its body."""
    lines = "\n".join("    " + line for line in statements.strip("\n").split("\n"))
    return ir(f"@jit\ndef kernel({', '.join(types)}):\n{lines}\n", **types)


def check(text: str, *patterns: str) -> None:
    """Each pattern occurs, in this order. `{}` matches any value name; a space matches any whitespace."""
    position = 0
    for pattern in patterns:
        parts = [re.escape(part).replace(r"\ ", r"\s+") for part in pattern.split("{}")]
        match = re.compile(r"%[\w#:]+".join(parts)).search(text, position)
        assert match, f"not found after offset {position}: {pattern}\n{text}"
        position = match.end()


def fails(text: str, **types: Any) -> CompilationError:
    """The error from compiling a kernel given as text."""
    with pytest.raises(CompilationError) as caught:
        emit(define(text), parameters(**types))
    return caught.value


def fails_in(statements: str, **types: Any) -> CompilationError:
    """The error from compiling a kernel with these statements as its body (they start in line 3)."""
    types = types or {"x": "*fp32", "n": "i32", "BLOCK": [16]}
    names = ", ".join(f"{name}: kl.constexpr" if isinstance(what, list) else name for name, what in types.items())
    lines = "\n".join("    " + line for line in statements.strip("\n").split("\n"))
    return fails(f"@jit\ndef kernel({names}):\n{lines}\n", **types)


def marked(error: CompilationError) -> str:
    """The source text under the caret."""
    place = error.location
    assert place is not None, error
    line, carets = place.excerpt()
    start = carets.index("^")
    return line[start : start + len(carets.rstrip()) - start]

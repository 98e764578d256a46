"""Emitting kernels to tile IR for the tests of the language: a kernel's source or function and its parameters."""

from __future__ import annotations

import linecache
import re
import textwrap
from typing import Any

import kiln
import kiln.language as kl
from kiln import frontend
from kiln.frontend.function import KernelFunction
from kiln.frontend.signature import Parameter

_count = 0


def kernel_of(source: str, **names: Any) -> KernelFunction:
    """The last function that `source` defines, as a kernel; `names` are its globals beside kl and kiln."""
    global _count
    _count += 1
    file = f"<kernel {_count}>"
    text = textwrap.dedent(source)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"kl": kl, "kiln": kiln, "jit": KernelFunction, **names}
    exec(compile(text, file, "exec"), scope)
    functions = [v for v in scope.values() if getattr(v, "__code__", None) is not None or isinstance(v, KernelFunction)]
    last = functions[-1]
    return last if isinstance(last, KernelFunction) else KernelFunction(last)


def emit(kernel: Any, **parameters: Any) -> str:
    """The tile IR of a kernel, verified, with whitespace collapsed. A str is a runtime type, anything else a
    constexpr."""
    function = kernel if isinstance(kernel, KernelFunction) else KernelFunction(kernel)
    listed = [
        Parameter(name, "runtime", value) if isinstance(value, str) else Parameter(name, "constexpr", value=value)
        for name, value in parameters.items()
    ]
    return re.sub(" +", " ", frontend.emit(function, listed, function.__name__).print())


def body(code: str, **parameters: Any) -> str:
    """The tile IR of a kernel with this body."""
    notes = [name if isinstance(value, str) else f"{name}: kl.constexpr" for name, value in parameters.items()]
    source = f"def kernel({', '.join(notes)}):\n" + textwrap.indent(textwrap.dedent(code), "    ")
    return emit(kernel_of(source), **parameters)


def type_of(expression: str, before: str = "pass", **parameters: Any) -> str:
    """The type the language gives an expression, after the statement `before`."""
    seen: list[str] = []

    def record(value: Any) -> None:
        seen.append(str(value.type))

    record.__kiln_builtin__ = True  # type: ignore[attr-defined]
    notes = [name if isinstance(value, str) else f"{name}: kl.constexpr" for name, value in parameters.items()]
    source = f"def kernel({', '.join(notes)}):\n    {before}\n    record({expression})\n"
    emit(kernel_of(source, record=record), **parameters)
    return seen[0]

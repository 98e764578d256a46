"""The names of the package `triton` itself."""

from __future__ import annotations

from typing import Any

from kiln import __version__ as __kiln_version__
from kiln.as_triton.allocation import set_allocator
from kiln.as_triton.async_compile import AsyncCompileMode, FutureKernel
from kiln.as_triton.autotuner import Config, autotune, heuristics
from kiln.as_triton.compiler import compile
from kiln.as_triton.errors import CompilationError, InterpreterError, OutOfResources, TritonError
from kiln.as_triton.jit import JITFunction, KernelInterface, MockTensor, TensorWrapper, constexpr_function, jit
from kiln.as_triton.jit import reinterpret as reinterpret
from kiln.as_triton.names import VERSION as __version__
from kiln.language.builtin import builtin

__all__ = [
    "AsyncCompileMode",
    "CompilationError",
    "Config",
    "FutureKernel",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "__kiln_version__",
    "__version__",
    "autotune",
    "cdiv",
    "compile",
    "constexpr_function",
    "heuristics",
    "jit",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "set_allocator",
]


@builtin
def cdiv(x: Any, y: Any) -> Any:
    """Ceiling division: of Python numbers on the host, of kernel values inside a kernel.

    >>> cdiv(10, 4)
    3
    """
    if isinstance(x, int) and isinstance(y, int):  # computed directly, so that torch.compile can trace it
        return (x + y - 1) // y
    return _in_kernel(lambda a, b: (a + b - 1) // b, x, y)


@builtin
def next_power_of_2(n: Any) -> Any:
    """The smallest power of two that is at least `n`; 0 if `n` is not positive, as in Triton.

    >>> next_power_of_2(100)
    128
    """
    if isinstance(n, int):
        return 1 << (n - 1).bit_length() if n > 0 else 0
    return _in_kernel(lambda a: 1 << (a - 1).bit_length() if a > 0 else 0, n)


def must_use_result(function: Any, s: Any = True) -> Any:
    """Marks a function whose result must not be dropped; Kiln ignores the mark."""
    return function if callable(function) else lambda inner: inner


def _in_kernel(rule: Any, *arguments: Any) -> Any:
    """`rule` applied to plain numbers (inside a kernel, as a constexpr); the language's own division for tensors."""
    if not any(type(a).__module__.startswith("kiln.") for a in arguments):
        return rule(*arguments)
    from kiln.errors import CompilationError
    from kiln.language import standard, values

    if any(isinstance(values.unwrap(a), values.tensor) for a in arguments):
        if len(arguments) == 2:
            return standard.cdiv(*arguments)
        raise CompilationError(
            "expected a constexpr in next_power_of_2 (because it is computed while compiling), got a tensor",
            hint="compute it before the launch and pass it as a tl.constexpr",
        )
    return values.constexpr(rule(*(values.unwrap(a) for a in arguments)))

"""Kiln: GPU and CPU kernels written over tiles, in Python.

    import kiln
    import kiln.language as kl

Everything is loaded when it is first used, so importing costs nothing a program would notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# attribute → module that holds it (the attribute itself, or None for the module as a whole)
_LAZY: dict[str, tuple[str, str | None]] = {
    "language": ("kiln.language", None),
    "knobs": ("kiln.knobs", None),
    "testing": ("kiln.testing", None),
    "errors": ("kiln.errors", None),
    "hooks": ("kiln.hooks", None),
    "explain": ("kiln.explain", None),
    "export": ("kiln.export", None),
    "nvtx": ("kiln.nvtx", None),
    "cuda": ("kiln.cuda", None),
    "synchronize": ("kiln.cuda.devices", "synchronize"),
    "jit": ("kiln.runtime.jit", "jit"),
    "JITFunction": ("kiln.runtime.jit", "JITFunction"),
    "CompiledKernel": ("kiln.runtime.jit", "CompiledKernel"),
    "autotune": ("kiln.runtime.autotuner", "autotune"),
    "heuristics": ("kiln.runtime.autotuner", "heuristics"),
    "constexpr_function": ("kiln.frontend.function", "constexpr_function"),
    "struct": ("kiln.frontend.struct", "struct"),
    "Config": ("kiln.runtime.autotuner", "Config"),
}


def cdiv(x: int, y: int) -> int:
    """Ceiling division.

    >>> cdiv(10, 4)
    3
    """
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n`` (1 for ``n`` below 1).

    >>> next_power_of_2(100)
    128
    """
    return 1 if n <= 1 else 1 << (int(n) - 1).bit_length()


def __getattr__(name: str) -> Any:
    entry = _LAZY.get(name)
    if entry is None:
        raise AttributeError(f"module 'kiln' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(entry[0])
    value = module if entry[1] is None else getattr(module, entry[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


if TYPE_CHECKING:
    from kiln import cuda, errors, explain, export, hooks, knobs, language, nvtx, testing
    from kiln.cuda.devices import synchronize
    from kiln.frontend.function import constexpr_function
    from kiln.frontend.struct import struct
    from kiln.runtime.autotuner import Config, autotune, heuristics
    from kiln.runtime.jit import CompiledKernel, JITFunction, jit

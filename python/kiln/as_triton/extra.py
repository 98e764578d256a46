"""Additions of `triton.language.extra.cuda` to `kiln.language.extra.cuda`: launch options at compile time."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

from kiln.frontend.function import constexpr_function

__all__ = ["num_threads", "num_warps"]

_warps: contextvars.ContextVar[int] = contextvars.ContextVar("warps", default=4)


@contextlib.contextmanager
def launching(options: Mapping[str, Any]) -> Iterator[None]:
    """Compiles inside this block are for a launch with these options."""
    token = _warps.set(int(options.get("num_warps") or 4))
    try:
        yield
    finally:
        _warps.reset(token)


@constexpr_function
def num_warps() -> int:
    """The launch option `num_warps`, even on the CPU.

    >>> warps: tl.constexpr = tl.extra.cuda.num_warps()
    """
    return _warps.get()


@constexpr_function
def num_threads() -> int:
    """The number of threads of the launch: 32 per warp.

    >>> threads: tl.constexpr = tl.extra.cuda.num_threads()
    """
    return 32 * _warps.get()

"""Differences of `triton.language` from `kiln.language`: defaults, and names of its `core` that libraries use.

`dot`             multiplies fp32 as tf32 by default (`TRITON_F32_DEFAULT`, `allow_tf32`)
`device_assert`   acts in debug mode only: TRITON_DEBUG=1, `@triton.jit(debug=True)`, or `debug=True` at the launch
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from kiln import language as kl
from kiln.as_triton import knobs
from kiln.language import values
from kiln.language.builtin import builtin

__all__ = ["CONSTEXPR_0", "_unwrap_if_constexpr", "device_assert", "dot", "must_use_result", "str_to_ty"]


CONSTEXPR_0 = kl.constexpr(0)

_debug: contextvars.ContextVar[bool] = contextvars.ContextVar("debug", default=False)


@contextlib.contextmanager
def debugging(on: bool) -> Iterator[None]:
    """Sets whether code that is compiled inside keeps its assertions."""
    token = _debug.set(on)
    try:
        yield
    finally:
        _debug.reset(token)


def spell_switches() -> str:
    """The settings that change the meaning of these names in kernels, for cache keys. Empty if no switch is set, so
    that code has the same key whether or not the process uses Triton's names."""
    fp32, debug = knobs.language.fp32_default, _debug.get() or knobs.runtime.debug
    return f"fp32={fp32} debug={debug}" if fp32 or debug else ""


@builtin
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = kl.float32,
) -> Any:
    """`kiln.language.dot`, with tf32 as the default precision for fp32.

    >>> c = tl.dot(a, b, acc=c)
    """
    asked = values.unwrap(input_precision), values.unwrap(allow_tf32)
    if asked == (None, None):
        input_precision = knobs.language.fp32_default or "tf32"
    elif asked[0] is None:
        input_precision, allow_tf32 = ("tf32" if asked[1] else "ieee"), None
    return kl.dot(input, other, acc, input_precision, None if asked[0] is None else allow_tf32,
                  max_num_imprecise_acc, out_dtype)  # fmt: skip


@builtin
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """`kiln.language.device_assert`, kept in debug mode only.

    >>> tl.device_assert(index < n, "index out of range")
    """
    if _debug.get() or knobs.runtime.debug:
        kl.device_assert(cond, msg, mask)


@builtin
def must_use_result(function: Any, s: Any = True) -> Any:
    """Marks a function whose result must not be dropped; Kiln ignores the mark."""
    return function if callable(function) else lambda inner: inner


def _unwrap_if_constexpr(value: Any) -> Any:
    """The value of a constexpr; anything else unchanged."""
    return values.unwrap(value)


def str_to_ty(name: str, c: Any = None) -> Any:
    """The type for a signature's spelling: "*fp32", "i32", "tensordesc<fp16[64, 64]>"."""
    from kiln.language import types

    return types.parse(name.replace(" ", ""))

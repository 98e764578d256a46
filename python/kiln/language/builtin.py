"""The decorator of functions that kernels may call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def builtin(function: F) -> F:
    """Marks a function of the language: kernels may call it, and its arguments are already evaluated."""
    function.__kiln_builtin__ = True  # type: ignore[attr-defined]
    return function


extern = builtin
"""Triton's decorator for functions that call a device library; the same as `builtin` here."""


def is_builtin(function: Any) -> bool:
    return getattr(function, "__kiln_builtin__", False) is True

"""Triton's `tl.core`: the names of the language by the path that some libraries import them from."""

from __future__ import annotations

from typing import Any

from .builtin import builtin, extern, is_builtin
from .types import get_int_dtype
from .values import constexpr
from .values import unwrap as _unwrap_if_constexpr

_constexpr_to_value = _unwrap_if_constexpr
CONSTEXPR_0 = constexpr(0)

__all__ = ["CONSTEXPR_0", "builtin", "extern", "get_int_dtype", "is_builtin"]


_names: dict[str, Any] = {}
"""The other names of the language, which the package adds once it has them."""


def __getattr__(name: str) -> Any:
    if name not in _names:
        raise AttributeError(f"module 'kiln.language.core' has no attribute {name!r}")
    return _names[name]

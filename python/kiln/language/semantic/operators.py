"""Python's binary operators: the elementwise ones, and the product of matrices."""

from __future__ import annotations

from typing import Any

from ..values import tensor, unwrap
from . import arithmetic
from .dot import dot


def binary(op: str, a: Any, b: Any) -> Any:
    """`a op b`. Two constexprs fold."""
    if op == "@" and (isinstance(unwrap(a), tensor) or isinstance(unwrap(b), tensor)):
        return dot(a, b)
    return arithmetic.binary(op, a, b)

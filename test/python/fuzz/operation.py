"""The table of operations. Each entry says how it is drawn, what it looks like in a kernel and what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluate import Frame, Value
    from .generate import Generator
    from .program import Node, Renderer


@dataclass(frozen=True)
class Operation:
    """`make` draws one and gives it to the generator; `text` is an expression, `lines` whole statements instead.

    `pure` ones may be inlined into a later expression, and dropped if unused.
    """

    name: str
    weight: float
    make: Callable[[Generator], Any]
    value: Callable[[Node, list[Value], Frame], list[Value]]
    text: Callable[[Node, list[str], Renderer], str]
    lines: Callable[[Node, Renderer], list[str]] | None = None
    pure: bool = True


OPERATIONS: dict[str, Operation] = {}


def no_text(node: Any, args: list[str], renderer: Any) -> str:
    raise AssertionError(f"{node.op} is written as statements")


def register(
    name: str,
    weight: float,
    make: Any,
    value: Any,
    text: Any = no_text,
    lines: Any = None,
    pure: bool = True,
) -> None:
    OPERATIONS[name] = Operation(name, weight, make, value, text, lines, pure)


def load_all() -> None:
    """Imports the modules that fill the table."""
    from . import combining, control, elementwise, memory, shapes

    assert all(module.__doc__ for module in (combining, control, elementwise, memory, shapes))

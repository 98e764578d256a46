"""`triton.profiler`: accepts the marks that programs make for Triton's profiler; sessions cannot be started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kiln import errors

__all__ = ["activate", "deactivate", "enter_scope", "exit_scope", "finalize", "profile", "scope", "start"]


def start(name: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """Refused: Kiln has no profiler of its own."""
    raise errors.UsageError(
        f"expected no session of Triton's profiler (because it is not there on Kiln), got one named {name!r}",
        hint="KILN_LINE_INFO=1 keeps source lines for the profilers of the machine, such as Nsight Compute and perf",
    )


def profile(function: Callable[..., Any] | None = None, *, name: str | None = None, **options: Any) -> Any:
    """Refused like `start`, when the function is called."""
    if function is None:
        return lambda inner: profile(inner, name=name, **options)
    return lambda *args, **kwargs: start(name or function.__name__)


def activate(session: int | None = None) -> None:
    """Does nothing: there is no session to resume."""


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Does nothing: there is no session to pause."""


def finalize(session: int | None = None, output_format: str = "") -> None:
    """Does nothing: there is no session to end."""


@contextlib.contextmanager
def scope(name: str, metrics: dict[str, Any] | None = None) -> Any:
    """A named part of the program, as a `with` block or a decorator; has no effect."""
    yield


def enter_scope(name: str, metrics: dict[str, Any] | None = None) -> None:
    """Begins a named part of the program; has no effect."""


def exit_scope(name: str | None = None, metrics: dict[str, Any] | None = None) -> None:
    """Ends a named part of the program; has no effect."""

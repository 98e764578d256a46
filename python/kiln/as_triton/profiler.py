"""`triton.profiler`: the marks that programs leave for Triton's profiler; a session cannot be started."""

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
    """Refused, as `start` is, when the function is called."""
    if function is None:
        return lambda inner: profile(inner, name=name, **options)
    return lambda *args, **kwargs: start(name or function.__name__)


def activate(session: int | None = None) -> None:
    """No session is there to go on."""


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """No session is there to halt."""


def finalize(session: int | None = None, output_format: str = "") -> None:
    """No session is there to end."""


@contextlib.contextmanager
def scope(name: str, metrics: dict[str, Any] | None = None) -> Any:
    """A part of the program with a name, as a `with` block or a decorator: runs as without it."""
    yield


def enter_scope(name: str, metrics: dict[str, Any] | None = None) -> None:
    """A part of the program with a name begins."""


def exit_scope(name: str | None = None, metrics: dict[str, Any] | None = None) -> None:
    """It ends."""

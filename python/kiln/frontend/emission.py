"""The emission that this thread is in: the language emits through `current()`, knowing nothing of the front end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kiln.frontend.emitter import Emitter

_state = threading.local()


def active() -> Emitter | None:
    """The emitter of the kernel this thread is compiling, if it is compiling one."""
    return getattr(_state, "emitter", None)


def current() -> Emitter:
    """The emitter of the kernel this thread is compiling; an error outside a kernel."""
    emitter = active()
    if emitter is None:
        from kiln.errors import UsageError

        raise UsageError(
            "functions of kiln.language work only inside a kernel",
            hint="decorate the function that calls it with @kiln.jit and launch it, kernel[grid](...)",
        )
    return emitter


@contextmanager
def emitting(emitter: Emitter) -> Iterator[None]:
    """In this block, this thread compiles with `emitter`."""
    outer = active()
    _state.emitter = emitter
    try:
        yield
    finally:
        _state.emitter = outer

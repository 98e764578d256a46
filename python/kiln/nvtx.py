"""Ranges that NVIDIA's profilers show: one for each compile, load and launch of a kernel, by its name.

    KILN_NVTX=1 nsys profile python mine.py

or `kiln.nvtx.start()`. Ranges are made by the first of these that is available: the package `nvtx`, torch, or NVIDIA's
library libnvToolsExt.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from kiln import errors, hooks


class Ranges(NamedTuple):
    """The functions that push and pop a range of the calling thread, and where they come from."""

    push: Callable[[str], Any]
    pop: Callable[[], Any]
    source: str


def find() -> Ranges | None:
    """The functions of the package `nvtx`, else of torch (if loaded, with CUDA), else of the library; None if all are
    missing."""
    try:
        import nvtx  # type: ignore[import-not-found]
    except ImportError:
        pass
    else:
        return Ranges(lambda name: nvtx.push_range(name, domain="kiln"), lambda: nvtx.pop_range(domain="kiln"), "nvtx")
    torch = sys.modules.get("torch")
    if torch is not None and torch.version.cuda is not None:
        return Ranges(torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop, "torch")
    try:
        library = ctypes.CDLL("libnvToolsExt.so.1")
    except OSError:
        return None
    library.nvtxRangePushA.argtypes = [ctypes.c_char_p]
    return Ranges(lambda name: library.nvtxRangePushA(name.encode()), library.nvtxRangePop, "libnvToolsExt")


_started: list[tuple[hooks.Hooks, Callable[[Any], Any]]] = []


def start() -> str:
    """Marks ranges from now on and returns the name of the library used. Does nothing if ranges are being marked
    already."""
    if _started:
        return ""
    ranges = find()
    if ranges is None:
        raise errors.UserError(
            "expected something that makes NVTX ranges (because KILN_NVTX or kiln.nvtx.start() asks for them), found"
            " neither the package nvtx, nor torch with CUDA loaded, nor libnvToolsExt.so.1"
        )
    for begin, end, what in (
        (hooks.compile_start, hooks.compile_end, "compile"),
        (hooks.load_start, hooks.load_end, "load"),
        (hooks.launch_enter, hooks.launch_exit, "launch"),
    ):
        push = _pusher(ranges, what)
        _started.extend([(begin, begin.add(push)), (end, end.add(_popper(ranges)))])
    return ranges.source


def _pusher(ranges: Ranges, what: str) -> Callable[[Any], None]:
    def push(event: Any) -> None:
        ranges.push(f"kiln {what} {event.name}")

    return push


def _popper(ranges: Ranges) -> Callable[[Any], None]:
    return lambda event: ranges.pop()


def stop() -> None:
    """Stops marking ranges."""
    for list_of_hooks, hook in _started:
        list_of_hooks.remove(hook)
    _started.clear()

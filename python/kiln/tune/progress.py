"""The progress line of tuning: one line on a terminal, overwritten and finally erased. Elsewhere nothing is shown."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

# Seconds between updates of the line.
INTERVAL = 0.1
BAR = 20


class Progress:
    """One line on `stream`, if that is a terminal. `with` always erases the line at the end."""

    def __init__(
        self,
        what: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        width: int | None = None,
    ):
        self.what, self.clock = what, clock
        self.stream: Any = sys.stderr if stream is None else stream
        self.shown = bool(getattr(self.stream, "isatty", lambda: False)())
        self.width = width
        self._next, self._written, self._started = float("-inf"), 0, clock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written:
            self._write("")
            self.stream.write("\r")
            self.stream.flush()
            self._written = 0

    def compiling(self, done: int, of: int) -> None:
        self._show(done, of, f"compiling {done}/{of}")

    def racing(self, round: int, left: int, of: int, best: Any, milliseconds: float) -> None:
        """`left` configurations of `of` are in the race after `round`."""
        # A race has no list of steps to work through; its only sure measure is how many are out.
        self._show(of - left, max(of - 1, 1), f"round {round}, {left} of {of} left, best {milliseconds:.4g} ms: {best}")

    def _show(self, done: int, of: int, text: str) -> None:
        if not self.shown:
            return
        now = self.clock()
        if now < self._next and done < of:
            return
        self._next = now + INTERVAL
        filled = BAR * done // max(of, 1)
        self._write(f"{self.what} [{'#' * filled}{'.' * (BAR - filled)}] {now - self._started:.0f} s, {text}")

    def _write(self, line: str) -> None:
        width = self.width or shutil.get_terminal_size().columns
        line = line if len(line) < width else line[: max(width - 2, 1)] + "…"
        self.stream.write("\r" + line + " " * max(self._written - len(line), 0))
        self.stream.flush()
        self._written = len(line)

"""Processes that `multiprocessing` starts afresh (spawn, forkserver): `import triton` is Kiln there too.

A forked process inherits its parent's modules; a process that starts as a new Python imports the program again, and
would not find triton.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.spawn as spawn
from typing import Any

_PREPARE = "import kiln.as_triton; kiln.as_triton.install(children=True); "

_without: Any = None
"""What `spawn.get_command_line` was."""


def _get_command_line(**given: Any) -> list[str]:
    words = list(_without(**given))
    if "-c" in words:  # a frozen program lacks this argument, and starts as itself
        at = words.index("-c") + 1
        words[at] = _PREPARE + words[at]
    return words


def install() -> None:
    global _without
    if _without is None:
        _without = spawn.get_command_line
        spawn.get_command_line = _get_command_line
        # Instead of the program itself, which the server would import without triton.
        multiprocessing.set_forkserver_preload(["kiln.as_triton.child"])


def uninstall() -> None:
    global _without
    if _without is not None:
        spawn.get_command_line = _without
        multiprocessing.set_forkserver_preload(["__main__"])
        _without = None

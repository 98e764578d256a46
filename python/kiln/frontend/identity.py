"""Which front end this is: a digest of the Python files that make tile IR of kernels. What is kept between processes by
the source of a kernel holds for one front end only.

The files are looked at when this module is loaded, which every module of the front end does before all others. Their
digest is made when it is asked for, and only if they are still the same: it must be that of the code that runs.
"""

from __future__ import annotations

import os

_PARTS = ("frontend", "language", os.path.join("language", "semantic"), os.path.join("language", "extra"), "as_triton")


def folder() -> str:
    """Where the package lies."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def stamps() -> tuple[tuple[str, int, int], ...]:
    """Of each file: its name, when it was written, its size. Empty if they lie in no folder."""
    found: list[tuple[str, int, int]] = []
    root = folder()
    try:
        for part in _PARTS:
            with os.scandir(os.path.join(root, part)) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        status = entry.stat()
                        found.append((f"{part}/{entry.name}", status.st_mtime_ns, status.st_size))
    except OSError:
        return ()
    return tuple(sorted(found))


AT_IMPORT = stamps()
_TEXT = (AT_IMPORT, repr(AT_IMPORT))


def text() -> str:
    """`AT_IMPORT` in words."""
    return _TEXT[1] if _TEXT[0] is AT_IMPORT else repr(AT_IMPORT)


def is_current() -> bool:
    """Whether the files are those that were there at first."""
    return bool(AT_IMPORT) and stamps() == AT_IMPORT


def newest() -> int:
    """When the last of them was written, in nanoseconds."""
    return max((written for _, written, _ in AT_IMPORT), default=0)


def digest() -> str:
    """Of their names and contents; empty where it cannot be told."""
    from kiln import _kiln

    text: list[str] = []
    try:
        for name, _, _ in AT_IMPORT:
            with open(os.path.join(folder(), name), "rb") as file:
                text.append(f"{name} {_kiln.digest(file.read())}\n")
    except OSError:
        return ""
    return _kiln.digest("".join(text).encode()) if is_current() else ""

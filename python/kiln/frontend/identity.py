"""The identity of the front end: a digest of the Python files that turn kernels into tile IR. Cache entries keyed by a
kernel's source are valid for one front end only.

The files' timestamps are read when this module is loaded, which every module of the front end does before anything
else. The digest is computed on demand, and only if the files have not changed: it must be that of the running code.
"""

from __future__ import annotations

import os

_PARTS = ("frontend", "language", os.path.join("language", "semantic"), os.path.join("language", "extra"), "as_triton")


def folder() -> str:
    """The directory of the package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def stamps() -> tuple[tuple[str, int, int], ...]:
    """The name, modification time and size of each file. Empty if they are not in a directory."""
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
    """`AT_IMPORT` as text."""
    return _TEXT[1] if _TEXT[0] is AT_IMPORT else repr(AT_IMPORT)


def is_current() -> bool:
    """Whether the files are unchanged since the import."""
    return bool(AT_IMPORT) and stamps() == AT_IMPORT


def newest() -> int:
    """The latest modification time, in nanoseconds."""
    return max((written for _, written, _ in AT_IMPORT), default=0)


def digest() -> str:
    """The digest of their names and contents; empty if it cannot be determined."""
    from kiln import _kiln

    text: list[str] = []
    try:
        for name, _, _ in AT_IMPORT:
            with open(os.path.join(folder(), name), "rb") as file:
                text.append(f"{name} {_kiln.digest(file.read())}\n")
    except OSError:
        return ""
    return _kiln.digest("".join(text).encode()) if is_current() else ""

"""Writes entries of the artifact cache behind the launch that made them.

What makes an entry safe costs time: every file is flushed to the disk before the entry gets its name. None of that has
to be over when a kernel is launched, so a thread does it, one entry after the other, and ends when there is nothing
left. It is no daemon: the interpreter's end waits for it, that of a child of `multiprocessing` too. What a process
loses that is killed is what it loses that is killed a little earlier: the entries that it has not published.

At most MOST entries wait, since each holds its bytes: who compiles faster than a disk takes them waits for room. A disk
that makes none for PATIENCE seconds loses what comes until it does; the next process compiles that again.

Whoever reads an entry of this process's own waits until it is written (`wait_for`), as does a fork for all: a child has
no thread, and would find the store's locks as they were.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

# Seconds that a fork, a reader, or the next entry waits for a disk.
PATIENCE = 30.0
MOST = 128

_lock = threading.Condition()
_jobs: deque[tuple[str, Callable[[], None]]] = deque()
_pending: dict[str, int] = {}  # how many jobs there are for each key, the one that runs among them
_writer: threading.Thread | None = None
_stuck = False  # somebody has waited in vain for room, and no job has ended since


def write(key: str, job: Callable[[], None]) -> None:
    """Runs `job`, which publishes the entry with this key and raises nothing, before long."""
    global _writer, _stuck
    with _lock:
        if len(_jobs) >= MOST and threading.current_thread() is not _writer:
            _stuck = _stuck or not _lock.wait_for(lambda: len(_jobs) < MOST, PATIENCE)
            if len(_jobs) >= MOST:
                return
        _jobs.append((key, job))
        _pending[key] = _pending.get(key, 0) + 1
        if _writer is None:
            thread = threading.Thread(target=_run, name="kiln-cache")
            thread.daemon = False  # whatever the thread is that launches
            _writer = thread
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending, or there can be no more threads
                _writer = None
        alone = _writer is None
    if alone:
        _run()


def _run() -> None:
    global _writer, _stuck
    while True:
        with _lock:
            if not _jobs:
                _writer = None
                return
            key, job = _jobs.popleft()
            _lock.notify_all()  # there is room
        try:
            job()
        finally:
            with _lock:
                _stuck = False
                _pending[key] -= 1
                if not _pending[key]:
                    del _pending[key]
                _lock.notify_all()


def wait_for(key: str) -> None:
    """Returns when the entry with this key is written, if this process is about to."""
    if key in _pending:
        with _lock:
            _lock.wait_for(lambda: key not in _pending, PATIENCE)


def flush() -> None:
    """Returns when all is written that has been published so far."""
    if _pending and threading.current_thread() is not _writer:
        with _lock:
            _lock.wait_for(lambda: not _pending, PATIENCE)


def _forget() -> None:
    """In a child, which has no thread: what is still to be written is its parent's."""
    global _lock, _writer, _stuck
    _lock, _stuck = threading.Condition(), False
    _jobs.clear()
    _pending.clear()
    _writer = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=flush, after_in_child=_forget)

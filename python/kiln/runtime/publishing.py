"""Writes entries of the artifact cache in the background, after the launch that made them.

Making an entry durable takes time: every file is flushed to disk before the entry gets its name. A launch need not wait
for that, so a thread does it, one entry at a time, and ends when there is nothing left. It is not a daemon thread: the
interpreter waits for it at exit, also in a child of `multiprocessing`. A process that is killed loses the entries that
it has not yet published, just as if it had been killed a little earlier.

At most MOST entries are queued, since each holds its bytes in memory; a process that compiles faster than the disk
writes has to wait for room. If there is no room for PATIENCE seconds, further entries are dropped until there is; the
next process compiles them again.

A reader of one of this process's own entries waits until it is written (`wait_for`). A fork waits for all entries: the
child does not have the thread, and would inherit the state of the store's locks.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

# Seconds that a fork, a reader or the next entry waits for the disk.
PATIENCE = 30.0
MOST = 128

_lock = threading.Condition()
_jobs: deque[tuple[str, Callable[[], None]]] = deque()
_pending: dict[str, int] = {}  # the number of jobs for each key, including the running one
_writer: threading.Thread | None = None
_stuck = False  # a wait for room has timed out, and no job has ended since


def write(key: str, job: Callable[[], None]) -> None:
    """Runs `job` soon, in the background. It publishes the entry with this key and must not raise."""
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
            thread.daemon = False  # it would inherit this from the launching thread
            _writer = thread
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending, or the thread limit is reached
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
    """Waits until the entry with this key is written, if this process has it queued."""
    if key in _pending:
        with _lock:
            _lock.wait_for(lambda: key not in _pending, PATIENCE)


def flush() -> None:
    """Waits until all entries published so far are written."""
    if _pending and threading.current_thread() is not _writer:
        with _lock:
            _lock.wait_for(lambda: not _pending, PATIENCE)


def _forget() -> None:
    """In a forked child, which does not have the thread: the parent writes the remaining entries."""
    global _lock, _writer, _stuck
    _lock, _stuck = threading.Condition(), False
    _jobs.clear()
    _pending.clear()
    _writer = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=flush, after_in_child=_forget)

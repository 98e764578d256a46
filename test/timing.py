"""Limits on CPU time that hold on slow and shared machines too.

Limits are stated for a quiet machine. A fixed piece of work, timed before and after each try, shows how much slower
this machine is at that moment: a virtual core that shares its caches and units with others takes two to five times as
long for the same work.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# CPU seconds of `_work` on the quiet machine on which the limits were chosen.
QUIET = 0.009
TRIES = 5


def _work() -> int:
    """Allocates, hashes and follows pointers, as a compiler does."""
    table: dict[int, list[int]] = {}
    for i in range(100000):
        table.setdefault(i * 7919 % 4093, []).append(i)
    return sum(values[-1] for values in table.values())


def slowness() -> float:
    """How many times as long as on the quiet machine work takes at the moment; at least 1."""
    start = time.process_time()
    _work()
    return max(1.0, (time.process_time() - start) / QUIET)


def check_time(limit: float, measure: Callable[[], float]) -> None:
    """Calls ``measure`` until it returns at most ``limit`` seconds of a quiet machine, at most ``TRIES`` times."""
    tries = []
    for _ in range(TRIES):
        before = slowness()
        took = measure()
        slow = (before + slowness()) / 2
        if took <= limit * slow:
            return
        tries.append(f"{took * 1e3:.0f} ms on a machine {slow:.1f} times as slow as a quiet one")
    raise AssertionError(f"expected at most {limit * 1e3:.0f} ms, took {', '.join(tries)}")

"""What PTX text shows: the width of its accesses to global memory."""

from __future__ import annotations

import re

_ACCESS = re.compile(r"^\s*(?:@!?%p\d+\s+)?(ld|st)\.global([.\w:]*)\s", re.MULTILINE)
_BITS = re.compile(r"\.[bufs](\d+)$")


def widths(ptx: str) -> dict[str, dict[int, int]]:
    """For "ld" and "st": bytes of one access to global memory -> number of such accesses in the text."""
    found: dict[str, dict[int, int]] = {"ld": {}, "st": {}}
    for kind, modifiers in _ACCESS.findall(ptx):
        lanes = re.search(r"\.v(\d)", modifiers)
        bits = _BITS.search(modifiers)
        assert bits, f"an access without a type: {kind}.global{modifiers}"
        size = int(bits[1]) // 8 * (int(lanes[1]) if lanes else 1)
        found[kind][size] = found[kind].get(size, 0) + 1
    return found


def share(counts: dict[int, int], at_least: int) -> float:
    """The share of bytes moved by accesses of at least `at_least` bytes; 1 without accesses."""
    total = sum(size * count for size, count in counts.items())
    return sum(size * count for size, count in counts.items() if size >= at_least) / total if total else 1.0

"""What can be read off a kernel's machine code: accesses to memory, and how many bytes a thread has in flight."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REGISTER = re.compile(r"\bR(\d+)\b")
_INSTRUCTION = re.compile(
    r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[\w.]+)?[^;]*);", re.MULTILINE
)


@dataclass(frozen=True)
class Accesses:
    """``loads``, ``stores``: count by bytes of one global access; ``local``: accesses to local memory (spills).
    ``in_flight``: bytes a thread has asked for before the first instruction that needs any of them."""

    loads: dict[int, int]
    stores: dict[int, int]
    local: int
    in_flight: int
    barriers: int


def width(modifiers: str) -> int:
    """Bytes of an access: .128 is 16, nothing is 4."""
    parts = modifiers.split(".")
    for name, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1), ("256", 32)):
        # ".64" in front of an address names its width; only that of the data is spelled in the opcode's parts.
        if name in parts:
            return size
    return 4


def read(text: str) -> Accesses:
    """Reads the SASS of one kernel, in order: what a branch skips is counted too."""
    loads: dict[int, int] = {}
    stores: dict[int, int] = {}
    local = barriers = in_flight = 0
    waiting: set[int] = set()
    counting = True
    for match in _INSTRUCTION.finditer(text):
        instruction = match[1]
        opcode, _, operands = instruction.partition(" ")
        name, _, modifiers = opcode.partition(".")
        if name in ("LDL", "STL"):
            local += 1
        if name == "BAR":
            barriers += 1
        if name == "STG":
            size = width(modifiers)
            stores[size] = stores.get(size, 0) + 1
        if name != "LDG":
            if counting and waiting and waiting & {int(r) for r in _REGISTER.findall(operands)}:
                counting = False
            continue
        size = width(modifiers)
        loads[size] = loads.get(size, 0) + 1
        target, _, address = operands.partition(",")
        if counting and waiting & {int(r) for r in _REGISTER.findall(address)}:
            counting = False  # the address was loaded
        if counting and (first := _REGISTER.search(target)):
            in_flight += size
            waiting |= set(range(int(first[1]), int(first[1]) + max(1, size // 4)))
    return Accesses(loads, stores, local, in_flight, barriers)


def describe(counts: dict[int, int]) -> str:
    """{16: 4, 2: 1} → "4 × 16 B, 1 × 2 B"."""
    return ", ".join(f"{count} × {size} B" for size, count in sorted(counts.items(), reverse=True)) or "none"

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
    """What a thread does to memory, in the order of the code.

    ``loads``, ``stores``: global accesses by their bytes. ``local``: accesses to local memory (spills). ``in_flight``:
    the most bytes loaded but not yet used. ``rounds``: groups of loads between which the thread waits for one of them,
    so each costs a latency.
    """

    loads: dict[int, int]
    stores: dict[int, int]
    local: int
    in_flight: int
    rounds: int
    barriers: int
    instructions: int


def width(modifiers: str) -> int:
    """Bytes of an access: .128 is 16, nothing is 4."""
    parts = modifiers.split(".")
    for name, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1), ("256", 32)):
        # ".64" before an address is the width of the address; only that of the data is among the opcode's parts.
        if name in parts:
            return size
    return 4


def read(text: str) -> Accesses:
    """Reads the SASS of one kernel, in order; code that a branch skips counts too."""
    loads: dict[int, int] = {}
    stores: dict[int, int] = {}
    local = barriers = instructions = rounds = most = 0
    pending: dict[int, tuple[int, int]] = {}  # register → the load it waits for, and that load's bytes
    waited = True
    for match in _INSTRUCTION.finditer(text):
        opcode, _, operands = match[1].partition(" ")
        name, _, modifiers = opcode.partition(".")
        instructions += name not in ("NOP", "BRA")
        local += name in ("LDL", "STL")
        barriers += name == "BAR"
        # A load's own target is not a use.
        uses = operands.partition(",")[2] if name == "LDG" else operands
        arrived = {pending[register][0] for register in map(int, _REGISTER.findall(uses)) if register in pending}
        if arrived:
            waited = True
            pending = {register: load for register, load in pending.items() if load[0] not in arrived}
        size = width(modifiers)
        if name == "STG":
            stores[size] = stores.get(size, 0) + 1
        if name != "LDG":
            continue
        loads[size] = loads.get(size, 0) + 1
        rounds += waited
        waited = False
        if first := _REGISTER.search(operands):
            load = (instructions, size)
            pending |= {int(first[1]) + i: load for i in range(max(1, size // 4))}
        most = max(most, sum(size for _, size in set(pending.values())))
    return Accesses(loads, stores, local, most, rounds, barriers, instructions)


def describe(counts: dict[int, int]) -> str:
    """{16: 4, 2: 1} → "4 × 16 B, 1 × 2 B"."""
    return ", ".join(f"{count} × {size} B" for size, count in sorted(counts.items(), reverse=True)) or "none"

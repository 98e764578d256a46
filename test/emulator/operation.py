"""The table of what instructions do. An instruction or modifier that is not in it is an error before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .ptx import TYPE, Instruction, Unsupported


@dataclass
class Wait:
    """Lanes that wait. `again`: afterwards the instruction runs once more; otherwise it is done."""

    at: Instruction
    is_over: Callable[[], bool]
    on_end: Callable[[], None] = lambda: None
    again: bool = False
    state: Callable[[], str] = lambda: ""
    lanes: Any = None


@dataclass
class Flight:
    """Asynchronous work of an instruction, and what to do when it is over."""

    instruction: Instruction
    land: Callable[[], None]
    key: tuple[Any, ...] = ()
    late: bool = True
    # A copy out of shared memory has read it before it lands.
    read: Callable[[], None] | None = None
    # The block whose memory it needs; None if it needs none any more.
    block: int | None = None


# The warp's turn is over.
YIELD = "yield"
Run = Callable[[Any, Any], Any]
Binder = Callable[[Instruction], Run]
_table: dict[str, tuple[Binder, frozenset[str]]] = {}


def operation(names: str, knows: str = "") -> Callable[[Binder], Binder]:
    """Registers the maker of an instruction's function `run(machine, lanes)`, which returns None, a Wait, or YIELD.

    `knows`: the modifiers that it honours or may ignore, besides types.
    """

    def register(binder: Binder) -> Binder:
        for name in names.split():
            _table[name] = binder, frozenset(knows.split())
        return binder

    return register


def bind(instruction: Instruction) -> Run | None:
    if instruction.name in ("bra", "ret", "exit"):
        return None
    if instruction.name not in _table:
        raise Unsupported(f"{instruction}: unknown instruction {instruction.name}")
    binder, known = _table[instruction.name]
    for modifier in instruction.modifiers:
        if modifier not in known and not TYPE.fullmatch(modifier):
            raise Unsupported(f"{instruction}: unknown modifier .{modifier}")
    return binder(instruction)

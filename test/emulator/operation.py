"""The table of what instructions do. An instruction or modifier that is not in it is an error before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ptx import TYPE, Instruction, Unsupported

Run = Callable[[Any, Any], Any]
Binder = Callable[[Instruction], Run]
_table: dict[str, tuple[Binder, frozenset[str]]] = {}


def operation(names: str, knows: str = "") -> Callable[[Binder], Binder]:
    """Registers what makes the function of an instruction, `run(machine, lanes)`: None, or what to wait for.

    `knows`: the modifiers it honours or may leave aside, beyond types.
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

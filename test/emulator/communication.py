"""What the lanes of a warp do together, and what a warp does for itself: shuffles, votes, registers, sleep."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arithmetic import bits_of
from .memory import MOST_BLOCKS, WINDOW
from .operation import YIELD, Run, Wait, operation
from .ptx import Fault, Instruction

FULL = 0xFFFFFFFF


def check_together(machine: Any, row: int | None, lanes: Any) -> None:
    """All lanes that the mask names must be here: reading from an absent lane is undefined."""
    mask = FULL if row is None else int(machine.read("u32", row, lanes)[0])
    here = FULL if isinstance(lanes, slice) else sum(1 << int(lane) % 32 for lane in lanes)
    alive = FULL if machine.warp.size == 32 else sum(1 << int(lane) % 32 for lane in machine.warp.lanes)
    if mask & alive != here:
        raise Fault(f"lanes {here:#x} of the mask {mask:#x} are here")


@operation("shfl", "sync bfly idx up down")
def _shuffle(ins: Instruction) -> Run:
    to, source, by, clamp, mask = ins.operands
    value, valid = to if isinstance(to, tuple) else (to, None)
    mode = ins.one_of("bfly", "idx", "up", "down")

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, mask, lanes)
        numbers = np.arange(32) if isinstance(lanes, slice) else lanes % 32
        distance = machine.read("u32", by, lanes).astype(np.int64) & 31
        c = machine.read("u32", clamp, lanes).astype(np.int64)
        segment, last = c >> 8 & 31, c & 31
        low = numbers & segment
        high = low | (last & ~segment)
        there = {"bfly": numbers ^ distance, "idx": low | (distance & ~segment), "up": numbers - distance,
                 "down": numbers + distance}[mode]  # fmt: skip
        inside = there >= high if mode == "up" else there <= high
        there = np.where(inside, there, numbers)
        where = np.full(32, -1)
        where[numbers] = np.arange(len(numbers))
        if (where[there] < 0).any():
            raise Fault("reads from a lane that has ended")
        machine.write("b32", value, lanes, machine.read("b32", source, lanes)[where[there]])
        machine.write("pred", valid, lanes, inside)

    return run


@operation("redux", "sync add min max and or xor")
def _reduce(ins: Instruction) -> Run:
    to, source, mask = ins.operands
    name = ins.one_of("add", "min", "max", "and", "or", "xor")
    function: Any = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
                     "xor": np.bitwise_xor}[name]  # fmt: skip

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, mask, lanes)
        values = machine.read(ins.type, source, lanes)
        machine.write(ins.type, to, lanes, function.reduce(values, dtype=values.dtype))

    return run


@operation("vote", "sync ballot any all uni")
def _vote(ins: Instruction) -> Run:
    to, source, mask = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, mask, lanes)
        votes = machine.read("pred", source, lanes)
        if "ballot" in ins.modifiers:
            numbers = np.arange(32) if isinstance(lanes, slice) else lanes % 32
            machine.write("u32", to, lanes, sum(1 << int(n) for n in numbers[votes]))
        else:
            machine.write("pred", to, lanes, votes.any() if "any" in ins.modifiers else votes.all())

    return run


@operation("elect", "sync")
def _elect(ins: Instruction) -> Run:
    (leader, elected), mask = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, mask, lanes)
        numbers = np.arange(32) if isinstance(lanes, slice) else lanes % 32
        # Which lane it is is unspecified, except that the same mask gives the same lane.
        chosen = numbers.max() if machine.order < 0 else numbers.min()
        machine.write("b32", leader, lanes, chosen)
        machine.write("pred", elected, lanes, numbers == chosen)

    return run


def mask_row(ins: Instruction) -> int | None:
    """The row of an instruction's lane mask; None: all lanes."""
    if ins.name in ("bar", "barrier"):
        return ins.operands[0] if "warp" in ins.modifiers else None
    return ins.operands[-1] if ins.name in ("shfl", "redux", "vote", "match", "elect") else None


@operation("griddepcontrol pmevent", "wait launch_dependents")
def _nothing(ins: Instruction) -> Run:
    def run(machine: Any, lanes: Any) -> None:
        machine.warp.waited |= "wait" in ins.modifiers

    return run


@operation("nanosleep")
def _sleep(ins: Instruction) -> Run:
    return lambda machine, lanes: YIELD


@operation("trap")
def _trap(ins: Instruction) -> Run:
    def run(machine: Any, lanes: Any) -> None:
        raise Fault("trap")

    return run


@operation("mapa", "shared::cluster")
def _map_address(ins: Instruction) -> Run:
    to, address, rank = ins.operands
    kind = f"u{bits_of(ins.type)}"

    def run(machine: Any, lanes: Any) -> None:
        # An address in a block that does not exist is an error only when it is used: LLVM hoists the instruction out of
        # the branch of the lanes that use it.
        ranks = np.minimum(machine.read("u32", rank, lanes).astype(np.uint64), np.uint64(MOST_BLOCKS))
        own = machine.read(kind, address, lanes).astype(np.uint64) & np.uint64((1 << WINDOW) - 1)
        machine.write(kind, to, lanes, own | ranks + np.uint64(1) << np.uint64(WINDOW))

    return run


@operation("setmaxnreg", "inc dec sync aligned")
def _registers(ins: Instruction) -> Run:
    (row,) = ins.operands
    more = "inc" in ins.modifiers

    def run(machine: Any, lanes: Any) -> Any:
        check_together(machine, None, lanes)
        warp, wanted = machine.warp, int(machine.read("u32", row, lanes)[0])
        if wanted % 8 or not 24 <= wanted <= 256:
            raise Fault(f"expected 24 to 256 registers and a multiple of 8, got {wanted}")
        change = wanted - warp.registers
        if change and (change > 0) != more:
            raise Fault(f"the thread has {warp.registers} registers")
        free = machine.free_registers
        if change * 32 > free[warp.block]:
            return Wait(ins, lambda: change * 32 <= free[warp.block], again=False, on_end=lambda: adjust(machine, warp),
                        state=lambda: f"{free[warp.block]} registers of the block are free")  # fmt: skip
        adjust(machine, warp)
        return None

    def adjust(machine: Any, warp: Any) -> None:
        wanted = machine.kernel.constants[row]
        machine.free_registers[warp.block] -= (wanted - warp.registers) * 32
        machine.changes += 1
        warp.registers = wanted
        warp.adjusted.append(str(ins))

    return run

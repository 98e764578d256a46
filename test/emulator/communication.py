"""What threads do together: shuffles, barriers, and mailboxes between the blocks of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .access import addresses_of
from .arithmetic import bits_of
from .memory import MOST_BLOCKS, WINDOW, Shared
from .operation import Run, operation
from .ptx import Fault, Instruction, Unsupported

FULL = 0xFFFFFFFF


def _check_together(machine: Any, row: int | None, lanes: Any) -> None:
    """All lanes that the mask names must be here: what a lane reads from one that is not is undefined."""
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
        _check_together(machine, mask, lanes)
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
        _check_together(machine, mask, lanes)
        values = machine.read(ins.type, source, lanes)
        machine.write(ins.type, to, lanes, function.reduce(values, dtype=values.dtype))

    return run


@operation("vote", "sync ballot any all uni")
def _vote(ins: Instruction) -> Run:
    to, source, mask = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        _check_together(machine, mask, lanes)
        votes = machine.read("pred", source, lanes)
        if "ballot" in ins.modifiers:
            numbers = np.arange(32) if isinstance(lanes, slice) else lanes % 32
            machine.write("u32", to, lanes, sum(1 << int(n) for n in numbers[votes]))
        else:
            machine.write("pred", to, lanes, votes.any() if "any" in ins.modifiers else votes.all())

    return run


# --- barriers ---------------------------------------------------------------------------------------------------------


@operation("bar barrier", "sync warp cta cluster arrive wait relaxed release acquire aligned")
def _barrier(ins: Instruction) -> Run:
    modifiers = ins.modifiers
    if "warp" in modifiers:
        return lambda machine, lanes: _check_together(machine, ins.operands[0], lanes)
    if "cluster" in modifiers:

        def cluster(machine: Any, lanes: Any) -> Any:
            _check_together(machine, None, lanes)
            warp = machine.warp
            if "wait" in modifiers:
                if warp.arrived <= warp.met:
                    raise Fault("waits for a cluster barrier at which it has not arrived")
                return ("cluster",)
            if warp.arrived > warp.met:
                raise Fault("arrives twice at a cluster barrier")
            warp.arrived += 1
            return None

        return cluster
    if "arrive" in modifiers:
        raise Unsupported(f"{ins}: arrival without a wait")

    def block(machine: Any, lanes: Any) -> Any:
        _check_together(machine, None, lanes)
        numbers = [int(machine.read("u32", row, lanes)[0]) for row in ins.operands]
        return "barrier", numbers[0], numbers[1] if len(numbers) > 1 else 0

    return block


@operation("fence membar", "acq_rel sc cta gpu sys cluster gl mbarrier_init release acquire")
def _fence(ins: Instruction) -> Run:
    # A warp's accesses take effect in its order: what a fence orders is ordered already.
    return lambda machine, lanes: None


@operation("pmevent griddepcontrol nanosleep", "wait launch_dependents")
def _nothing(ins: Instruction) -> Run:
    return lambda machine, lanes: None


@operation("trap")
def _trap(ins: Instruction) -> Run:
    def run(machine: Any, lanes: Any) -> None:
        raise Fault("trap")

    return run


# --- mailboxes --------------------------------------------------------------------------------------------------------


@operation("mapa", "shared::cluster")
def _map_address(ins: Instruction) -> Run:
    to, address, rank = ins.operands
    kind = f"u{bits_of(ins.type)}"

    def run(machine: Any, lanes: Any) -> None:
        # An address in a block that there is not is no mistake before it is used: LLVM takes the instruction out of the
        # branch of the lanes that use it.
        ranks = np.minimum(machine.read("u32", rank, lanes).astype(np.uint64), np.uint64(MOST_BLOCKS))
        own = machine.read(kind, address, lanes).astype(np.uint64) & np.uint64((1 << WINDOW) - 1)
        machine.write(kind, to, lanes, own | ranks + np.uint64(1) << np.uint64(WINDOW))

    return run


@dataclass
class Mailbox:
    """An mbarrier: a phase ends when `count` have arrived and as many bytes have come as were announced."""

    count: int
    missing: int
    bytes: int = 0
    phase: int = 0

    def advance(self) -> None:
        if self.missing < 0:
            raise Fault(f"more than {self.count} arrive in one phase")
        if self.missing == 0 and self.bytes == 0:
            self.missing = self.count
            self.phase += 1

    def __str__(self) -> str:
        return f"phase {self.phase}: {self.missing} of {self.count} arrivals and {self.bytes} bytes missing"


@dataclass
class Message:
    """A store on its way to another block, and the mailbox that counts it."""

    instruction: Instruction
    address: np.ndarray
    data: np.ndarray
    size: int
    mailbox: tuple[int, int]


def _mailbox_at(machine: Any, address: int, own: int) -> tuple[int, int]:
    shared: Shared = machine.shared
    block, offset = (int(x[0]) for x in shared.place(np.array([address]), np.array([own])))
    shared.parts(np.array([address]), np.array([own]), 8)
    return block, offset


def _known(machine: Any, address: int, own: int) -> tuple[int, int]:
    key = _mailbox_at(machine, address, own)
    if key not in machine.mailboxes:
        raise Fault(f"no mailbox has been initialised at {key[1]:#x} of block {key[0]}")
    return key


@operation(
    "mbarrier", "init inval arrive expect_tx try_wait test_wait parity shared::cta shared release acquire cta cluster"
)
def _mailbox(ins: Instruction) -> Run:
    modifiers, operands = ins.modifiers, ins.operands
    if "init" in modifiers:

        def init(machine: Any, lanes: Any) -> None:
            addresses = addresses_of(machine, operands[0], lanes, True)
            counts = machine.read("u32", operands[1], lanes)
            for address, own, count in zip(addresses, machine.blocks[lanes], counts, strict=True):
                key = _mailbox_at(machine, int(address), int(own))
                machine.mailboxes[key] = Mailbox(int(count), int(count))

        return init
    if "arrive" in modifiers:
        to, address, *amount = operands

        def arrive(machine: Any, lanes: Any) -> None:
            addresses, owners = addresses_of(machine, address, lanes, True), machine.blocks[lanes]
            numbers = machine.read("u32", amount[0], lanes) if amount else np.ones(len(addresses), np.uint32)
            phases = np.empty(len(addresses), np.uint64)
            for i, (at, own, number) in enumerate(zip(addresses, owners, numbers, strict=True)):
                mailbox = machine.mailboxes[_known(machine, int(at), int(own))]
                phases[i] = mailbox.phase
                mailbox.bytes += int(number) if "expect_tx" in modifiers else 0
                mailbox.missing -= 1 if "expect_tx" in modifiers else int(number)
                mailbox.advance()
            machine.write("b64", to, lanes, phases)

        return arrive
    if "try_wait" in modifiers or "test_wait" in modifiers:
        over, address, state, *_ = operands

        def wait(machine: Any, lanes: Any) -> Any:
            addresses, owners = addresses_of(machine, address, lanes, True), machine.blocks[lanes]
            states = machine.read("u32" if "parity" in modifiers else "b64", state, lanes)
            for at, own, seen in zip(addresses, owners, states, strict=True):
                key = _known(machine, int(at), int(own))
                phase = machine.mailboxes[key].phase
                waits = phase % 2 == int(seen) & 1 if "parity" in modifiers else phase == int(seen)
                if waits:
                    # It tries again once the phase is over: a loop around it would do the same.
                    return "mailbox", key, phase
            machine.write("pred", over, lanes, True)
            return None

        return wait
    raise Unsupported(f"{ins}: a mailbox cannot do this")


def send(ins: Instruction) -> Run:
    """st.async: the data and the count of its bytes come later, together."""
    to, source, counter = ins.operands
    rows = source if isinstance(source, tuple) else (source,)
    size = bits_of(ins.type) // 8

    def run(machine: Any, lanes: Any) -> None:
        addresses = addresses_of(machine, to, lanes, True)
        counters, owners = addresses_of(machine, counter, lanes, True), machine.blocks[lanes]
        values = [machine.read(f"b{8 * size}", row, lanes).copy() for row in rows]
        machine.shared.parts(addresses, owners, size)
        for lane, (at, own) in enumerate(zip(counters, owners, strict=True)):
            key = _known(machine, int(at), int(own))
            if addresses[lane] >> WINDOW != at >> WINDOW:
                raise Fault("the data and its mailbox are in different blocks")
            data = np.array([value[lane] for value in values])
            machine.on_the_way.append(Message(ins, addresses[lane], data, size, key))

    return run


def deliver(machine: Any) -> bool:
    """Lets everything arrive that is on its way. Whether anything was."""
    messages, machine.on_the_way = machine.on_the_way, []
    for message in messages:
        places = message.address + np.arange(len(message.data)) * message.size
        try:
            for block, offsets, which in machine.shared.parts(places, np.zeros(len(places), np.int64), message.size):
                block.store(offsets, message.size, message.data[which])
            mailbox = machine.mailboxes[message.mailbox]
            mailbox.bytes -= message.data.size * message.size
            mailbox.advance()
        except Fault as fault:
            raise Fault(f"{message.instruction}: on arrival: {fault} (program {machine.program})") from None
    return bool(messages)

"""Asynchronous copies: by threads (cp.async), and by the copy engine (cp.async.bulk, with tensor maps and without),
which also reduces boxes into memory (cp.reduce.async.bulk.tensor)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .access import check_waited
from .barriers import Mbarrier, mbarrier_at
from .memory import WINDOW, addresses_of
from .operation import Flight, Run, operation
from .ordering import BY_COPIES, BY_PROXY, Mark
from .ptx import ARGUMENTS_BASE, ARGUMENTS_ROOM, SHARED_BASE, Address, Fault, Instruction, Unsupported
from .tensor_map import ELEMENTS, TensorMap, decode, swizzled

SPACES = ("global", "shared::cta", "shared::cluster")
# How a reduction combines, by its modifier.
REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
              "xor": np.bitwise_xor}  # fmt: skip


@operation(
    "cp",
    "async bulk tensor 1d 2d 3d 4d 5d tile global shared shared::cta shared::cluster ca cg commit_group wait_group "
    "wait_all read bulk_group mbarrier::complete_tx::bytes multicast::cluster prefetch L2 L2::cache_hint L2::64B "
    "L2::128B L2::256B reduce add min max and or xor",
)
def _copy(ins: Instruction) -> Run:
    modifiers = ins.modifiers
    if "reduce" in modifiers and not {"bulk", "tensor", "bulk_group"} <= set(modifiers):
        raise Unsupported(f"{ins}: a reduction of no box in global memory")
    if "prefetch" in modifiers:
        return _prefetch_box(ins) if "tensor" in modifiers else lambda machine, lanes: None
    if "bulk" in modifiers:
        if "commit_group" in modifiers:
            return _close_bulk_group
        if "wait_group" in modifiers:
            return _wait_bulk(ins)
        if ins.one_of(*SPACES) == "global":
            return _copy_out(ins)
        return _copy_in(ins)
    if "commit_group" in modifiers:
        return _close_group
    if "wait_group" in modifiers or "wait_all" in modifiers:
        return _wait_copies(ins)
    return _copy_by_threads(ins)


# --- by threads -------------------------------------------------------------------------------------------------------


def _copy_by_threads(ins: Instruction) -> Run:
    to, source, size_row, *rest = ins.operands
    if "L2::cache_hint" in ins.modifiers:
        rest = rest[:-1]
    bypass = "cg" in ins.modifiers

    def run(machine: Any, lanes: Any) -> None:
        check_waited(machine)
        warp, size = machine.warp, int(machine.read("u32", size_row, lanes)[0])
        if size not in ((16,) if bypass else (4, 8, 16)):
            raise Fault(f"a copy of {size} bytes")
        targets, sources = addresses_of(machine, to, lanes, True), addresses_of(machine, source, lanes, False)
        amounts = machine.read("u32", rest[0], lanes).copy() if rest else np.full(len(targets), size)
        if (amounts > size).any():
            raise Fault(f"{int(amounts.max())} bytes to read of {size}")
        if (sources[amounts > 0] % size).any():
            raise Fault(f"misaligned: {size} bytes at {int(sources[amounts > 0][0]):#x}")
        group = warp.copies + 1
        part = machine.clocks.part("copies", warp.index)
        fence = machine.clocks.part("fence copies", warp.index)
        mark = Mark(part, group, ins, warp.index, fence=fence)
        ((block, offsets, _),) = machine.shared.parts(targets, np.full(len(targets), warp.block), size)
        machine.ordering.begin_write(warp.index, block.shadow, (offsets - SHARED_BASE) // size, size, mark, BY_COPIES)
        for amount in np.unique(amounts[amounts > 0]):
            machine.memory.holders(sources[amounts == amount], int(amount))

        def land() -> None:
            data = np.zeros((len(offsets), size), np.uint8)
            for amount in np.unique(amounts[amounts > 0]):
                which = np.flatnonzero(amounts == amount)
                for held, lanes in machine.memory.holders(sources[which], int(amount)):
                    begins = sources[which[lanes]] - held.begin
                    data[which[lanes], :amount] = held.words[1][begins[:, None] + np.arange(amount)]
            block.words[1][(offsets - SHARED_BASE)[:, None] + np.arange(size)] = data

        machine.depart(Flight(ins, land, ("copies", warp.index, group), block=warp.block))

    return run


def _check_whole_warp(machine: Any, lanes: Any) -> None:
    if machine.count(lanes) != machine.warp.size:
        raise Unsupported("groups of copies by part of a warp")


def _close_group(machine: Any, lanes: Any) -> None:
    _check_whole_warp(machine, lanes)
    machine.warp.copies += 1


def _wait_copies(ins: Instruction) -> Run:
    def wait(machine: Any, lanes: Any) -> None:
        _check_whole_warp(machine, lanes)
        warp = machine.warp
        if "wait_all" in ins.modifiers:
            warp.copies += 1
            pending = 0
        else:
            pending = int(machine.read("u32", ins.operands[0], lanes)[0])
        done = max(warp.copies - pending, 0)
        for flight in list(machine.flights):
            if flight.key[:2] == ("copies", warp.index) and flight.key[2] <= done:
                machine.finish(flight)
        machine.clocks.learn(warp.index, machine.clocks.part("copies", warp.index), done)

    return wait


# --- by the copy engine -----------------------------------------------------------------------------------------------


def _map_at(machine: Any, address: int) -> TensorMap:
    if address % 64:
        raise Fault(f"misaligned: a tensor map at {address:#x}")
    begin = address - ARGUMENTS_BASE
    if 0 <= begin < ARGUMENTS_ROOM:
        if begin + 128 > machine.kernel.parameter_bytes:
            raise Fault("out of bounds: no argument is there")
        return decode(machine.arguments[begin : begin + 128].tobytes())
    return decode(machine.memory.gather(np.array([address]), 128).tobytes())


def _maps(machine: Any, operand: Address, dims: int, lanes: Any) -> list[tuple[TensorMap, tuple[int, ...]]]:
    """The tensor map and the coordinates of each lane."""
    addresses = map_addresses(machine, operand, lanes)
    places = [machine.read("s32", row, lanes) for row in operand.coordinates]
    found = []
    for i, address in enumerate(addresses):
        made = _map_at(machine, int(address))
        if not len(made.box) == dims == len(places):
            raise Fault(f"a tensor map of rank {len(made.box)} for {len(places)} coordinates in {dims} dimensions")
        place = tuple(int(place[i]) for place in places)
        # As observed on an H200: it ends the launch with an illegal instruction.
        if place[0] * ELEMENTS[made.element][0] % 16:
            raise Fault(f"misaligned: a box {place[0]} elements along its rows, no multiple of 16 bytes")
        found.append((made, place))
    return found


def map_addresses(machine: Any, operand: Address, lanes: Any) -> np.ndarray:
    if operand.parameter:
        return np.full(machine.count(lanes), ARGUMENTS_BASE + operand.offset)
    return addresses_of(machine, operand, lanes, False)


def _dims(ins: Instruction) -> int:
    return int(ins.one_of("1d", "2d", "3d", "4d", "5d")[0])


def _prefetch_box(ins: Instruction) -> Run:
    def run(machine: Any, lanes: Any) -> None:
        _maps(machine, ins.operands[0], _dims(ins), lanes)

    return run


@operation("prefetch prefetchu", "global L1 L2 tensormap param")
def _prefetch(ins: Instruction) -> Run:
    """Reads nothing, so it need not wait for the launch before; but there has to be memory."""

    def run(machine: Any, lanes: Any) -> None:
        if "tensormap" in ins.modifiers:
            for address in map_addresses(machine, ins.operands[0], lanes):
                _map_at(machine, int(address))
        else:
            for _ in machine.memory.parts(addresses_of(machine, ins.operands[0], lanes, False), 1):
                pass

    return run


class _Source:
    """What a copy to shared memory reads: a box of a mapped array, or bytes of global or shared memory."""

    def __init__(self, machine: Any, size: int):
        self.machine, self.size, self.swizzle = machine, size, 0

    def read(self) -> np.ndarray:
        raise NotImplementedError


class _Box(_Source):
    def __init__(self, machine: Any, made: TensorMap, place: tuple[int, ...]):
        super().__init__(machine, made.box_bytes)
        self.map, self.place, self.swizzle = made, place, made.swizzle

    def read(self) -> np.ndarray:
        addresses, first, last = self.map.rows(self.place)
        rows = np.tile(self.map.filling(), (len(addresses), 1))
        inside = addresses != 0
        if inside.any() and last > first:
            size = ELEMENTS[self.map.element][0]
            rows[inside, first * size : last * size] = self.machine.memory.gather(
                addresses[inside], (last - first) * size
            )
        return rows.reshape(-1, 16)


class _GlobalBytes(_Source):
    def __init__(self, machine: Any, address: int, size: int):
        super().__init__(machine, size)
        self.address = address
        machine.memory.whole(np.array([address]), size)

    def read(self) -> np.ndarray:
        return self.machine.memory.gather(np.array([self.address]), self.size).reshape(-1, 16)


class _SharedBytes(_Source):
    def __init__(self, machine: Any, address: int, size: int, ins: Instruction, barrier: Mbarrier):
        super().__init__(machine, size)
        warp = machine.warp
        self.block = warp.block
        self.chunks = machine.shared.chunks(warp.block, address + np.arange(0, size, 16))
        shadow = machine.shared.blocks[warp.block].shadow
        machine.ordering.begin_read(warp.index, shadow, self.chunks, barrier.part, barrier.phase + 1, ins)

    def read(self) -> np.ndarray:
        return self.machine.shared.bytes(self.block)[self.chunks].copy()


def _check_bulk(size: int, *addresses: int) -> None:
    if size % 16 or any(address % 16 for address in addresses):
        raise Fault(f"misaligned: a copy of {size} bytes at {' and '.join(f'{address:#x}' for address in addresses)}")


def _copy_in(ins: Instruction) -> Run:
    """Copies to shared memory of this block or of others; each counts the bytes at its own mbarrier."""
    modifiers, operands = ins.modifiers, list(ins.operands)
    if "L2::cache_hint" in modifiers:
        operands.pop()
    mask_row = operands.pop() if "multicast::cluster" in modifiers else None
    to, source, *rest = operands
    counter = rest[-1]
    if "mbarrier::complete_tx::bytes" not in modifiers:
        raise Unsupported(f"{ins}: a copy to shared memory without an mbarrier")
    from_shared = modifiers.count("shared::cta") + modifiers.count("shared::cluster") == 2

    def run(machine: Any, lanes: Any) -> None:
        if not from_shared:
            check_waited(machine)
        targets, counters = addresses_of(machine, to, lanes, True), addresses_of(machine, counter, lanes, True)
        boxes = _maps(machine, source, _dims(ins), lanes) if "tensor" in modifiers else None
        froms = None if boxes else addresses_of(machine, source, lanes, from_shared)
        sizes = None if boxes else machine.read("u32", rest[0], lanes)
        masks = None if mask_row is None else machine.read("u16", mask_row, lanes)
        own = machine.warp.block
        for i, (target, at) in enumerate(zip(targets, counters, strict=True)):
            place, mbarrier = int(target) & ((1 << WINDOW) - 1), int(at) & ((1 << WINDOW) - 1)
            if masks is not None:
                owners = [block for block in range(16) if int(masks[i]) >> block & 1]
                if not owners:
                    raise Fault("a multicast to no block")
            else:
                owners = [int(target) >> WINDOW or own + 1]
                owners[0] -= 1
                if (int(at) >> WINDOW or own + 1) - 1 != owners[0]:
                    raise Fault("the data and its mbarrier are in different blocks")
            barriers = [mbarrier_at(machine, block + 1 << WINDOW | mbarrier, own, by_copy=True) for block in owners]
            what: _Source
            if boxes is not None:
                what = _Box(machine, *boxes[i])
                if place % 128:
                    raise Fault(f"misaligned: a box at {place - SHARED_BASE} of shared memory, no multiple of 128")
            else:
                size, begin = int(sizes[i]), int(froms[i])
                _check_bulk(size, begin, place)
                what = (_SharedBytes(machine, begin, size, ins, barriers[0]) if from_shared
                        else _GlobalBytes(machine, begin, size))  # fmt: skip
            addresses = swizzled(place + np.arange(0, what.size, 16), what.swizzle)
            for block, barrier in zip(owners, barriers, strict=True):
                chunks = machine.shared.chunks(block, addresses)
                mark = Mark(barrier.part, barrier.phase + 1, ins, machine.warp.index)
                shadow = machine.shared.blocks[block].shadow
                machine.ordering.begin_write(machine.warp.index, shadow, chunks, 16, mark, BY_PROXY)
                _depart(machine, ins, block, barrier, what, chunks)

    return run


def _depart(machine: Any, ins: Instruction, block: int, barrier: Mbarrier, what: _Source, chunks: np.ndarray) -> None:
    phase = barrier.phase

    def land() -> None:
        if barrier.phase != phase:
            raise Fault(f"phase {phase} of the mbarrier {barrier.name()} has ended without it: it expected fewer bytes")
        machine.shared.bytes(block)[chunks] = what.read()
        barrier.bytes -= what.size
        barrier.advance(machine)

    machine.depart(Flight(ins, land, block=block))


# --- to global memory -------------------------------------------------------------------------------------------------


def _groups(machine: Any, thread: int) -> int:
    """Groups of bulk copies that a thread has closed."""
    return machine.bulk_groups.get(thread, 0)


def _close_bulk_group(machine: Any, lanes: Any) -> None:
    for thread in np.arange(machine.threads)[lanes]:
        machine.bulk_groups[int(thread)] = _groups(machine, int(thread)) + 1


def _wait_bulk(ins: Instruction) -> Run:
    only_read = "read" in ins.modifiers

    def wait(machine: Any, lanes: Any) -> None:
        pending = int(machine.read("u32", ins.operands[0], lanes)[0])
        for thread in np.arange(machine.threads)[lanes]:
            done = _groups(machine, int(thread)) - pending
            for flight in list(machine.flights):
                if flight.key[:2] != ("bulk", int(thread)) or flight.key[2] > done:
                    continue
                if not only_read:
                    machine.finish(flight)
                else:
                    machine.arrive(flight, flight.read)
                    flight.read, flight.block = None, None
            machine.clocks.learn(machine.warp.index, machine.clocks.part("bulk", int(thread)), done)

    return wait


def _copy_out(ins: Instruction) -> Run:
    """Copies from the block's own shared memory, in the bulk group that the thread has open."""
    modifiers, (to, source, *rest) = ins.modifiers, ins.operands
    if "bulk_group" not in modifiers:
        raise Unsupported(f"{ins}: a copy to global memory without a bulk group")
    combine = REDUCTIONS[ins.one_of(*REDUCTIONS)] if "reduce" in modifiers else None

    def run(machine: Any, lanes: Any) -> None:
        check_waited(machine)
        warp = machine.warp
        boxes = _maps(machine, to, _dims(ins), lanes) if "tensor" in modifiers else None
        targets = None if boxes else addresses_of(machine, to, lanes, False)
        sizes = None if boxes else machine.read("u32", rest[0], lanes)
        for i, (thread, begin) in enumerate(
            zip(np.arange(machine.threads)[lanes], addresses_of(machine, source, lanes, True), strict=True)
        ):
            begin, swizzle = int(begin), 0
            if begin >> WINDOW not in (0, warp.block + 1):
                raise Fault("a copy out of another block's memory")
            begin &= (1 << WINDOW) - 1
            if boxes is not None:
                made, place = boxes[i]
                size, swizzle = made.box_bytes, made.swizzle
                if min(place) < 0:
                    raise Fault("a box to be written begins before the array: an H200 ends the launch there")
                if begin % 128:
                    raise Fault(f"misaligned: a box at {begin - SHARED_BASE} of shared memory, no multiple of 128")
            else:
                size = int(sizes[i])
                _check_bulk(size, begin, int(targets[i]))
                machine.memory.whole(targets[i : i + 1], size)
            chunks = machine.shared.chunks(warp.block, swizzled(begin + np.arange(0, size, 16), swizzle))
            group = _groups(machine, int(thread)) + 1
            part = machine.clocks.part("bulk", int(thread))
            shadow = machine.shared.blocks[warp.block].shadow
            machine.ordering.begin_read(warp.index, shadow, chunks, part, group, ins)
            machine.bulk_reads[int(thread)] = warp.index, group, ins
            target = boxes[i] if boxes is not None else int(targets[i])
            if combine is not None and boxes[i][0].numbers is None:
                raise Unsupported(f"{ins}: a reduction of elements that are no numbers here")
            _depart_out(machine, ins, warp.block, chunks, target, ("bulk", int(thread), group), combine)

    return run


def _depart_out(machine: Any, ins: Instruction, block: int, chunks: np.ndarray, target: Any, key: Any,
                combine: Any) -> None:  # fmt: skip
    held: list[np.ndarray] = []

    def read() -> None:
        held.append(machine.shared.bytes(block)[chunks].copy())

    def land() -> None:
        data = held[0]
        if isinstance(target, int):
            machine.memory.scatter(np.array([target]), data.reshape(1, -1))
            return
        made, place = target
        addresses, first, last = made.rows(place)
        inside, size = addresses != 0, ELEMENTS[made.element][0]
        if inside.any() and last > first:
            rows = data.reshape(len(addresses), -1)[inside, first * size : last * size]
            if combine is not None:
                # Row by row: they may overlap.
                for at, row in zip(addresses[inside], rows, strict=True):
                    there = machine.memory.gather(np.array([at]), row.size)
                    sums = combine(there.view(made.numbers), np.ascontiguousarray(row)[None].view(made.numbers))
                    machine.memory.scatter(np.array([at]), sums.view(np.uint8))
                return
            machine.memory.scatter(addresses[inside], rows)

    machine.depart(Flight(ins, land, key, read=read, block=block))


def check_end(machine: Any, block: int) -> None:
    """Once a block's threads have exited, nothing may read or fill its memory."""
    for thread, (index, group, ins) in machine.bulk_reads.items():
        if machine.warps[index].block == block and not machine.clocks.knows(
            index, machine.clocks.part("bulk", thread), group
        ):
            raise Fault(f"{ins}: block {block} of program {machine.program} ends before its memory has been read")
    for flight in machine.flights:
        if flight.block == block:
            raise Fault(f"{flight.instruction}: block {block} of program {machine.program} ends while it is filled")

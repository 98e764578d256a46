"""Loads, stores and atomics of one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .arithmetic import bits_of
from .barriers import send
from .memory import addresses_of, bounds, check_alignment
from .operation import Run, operation
from .ptx import ARGUMENTS_BASE, SHARED_BASE, Fault, Instruction

CACHES = ("nc cg cs ca wt lu cv weak volatile relaxed acquire release acq_rel cta gpu sys cluster global shared "
          "shared::cta shared::cluster L1::evict_first L1::evict_last L1::evict_normal L1::no_allocate "
          "L1::evict_unchanged L2::cache_hint L2::evict_first L2::evict_last L2::64B L2::128B L2::256B "
          "v2 v4 v8 ")  # fmt: skip


def is_shared(ins: Instruction) -> bool:
    return any(m.startswith("shared") for m in ins.modifiers)


def is_early(machine: Any) -> bool:
    """Whether the launch before may still be running."""
    return bool(machine.waits_for_grid and not machine.warp.waited)


def check_waited(machine: Any) -> None:
    """Checks that a kernel that waits for the previous launch does so before anything that launch may affect."""
    if is_early(machine):
        raise Fault("global memory ahead of griddepcontrol.wait: the launch before may still write it or read it")


def parts(
    machine: Any, ins: Instruction, addresses: np.ndarray, size: int, lanes: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """Blocks of memory, addresses in them and lanes (as places in `addresses`)."""
    if is_shared(ins):
        for block, offsets, which in machine.shared.parts(addresses, machine.blocks[lanes], size):
            yield block, offsets, which
    else:
        if ins.name != "ld" or "volatile" not in ins.modifiers:
            check_waited(machine)
        for block, which in machine.memory.parts(addresses, size):
            yield block, addresses[which], which


def vectors(
    machine: Any, ins: Instruction, addresses: np.ndarray, size: int, lanes: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """The same of accesses of up to 32 bytes. The first word decides which block a vector is in."""
    if size <= 8:
        yield from parts(machine, ins, addresses, size, lanes)
        return
    check_alignment(addresses, size)
    for block, places, which in parts(machine, ins, addresses, 8, lanes):
        _check_end(block, places, size)
        yield block, places, which


@operation("ld", CACHES + "param")
def _load(ins: Instruction) -> Run:
    to, address, *_ = ins.operands
    rows = to if isinstance(to, tuple) else (to,)
    kind = ins.type
    size = bits_of(kind) // 8
    # A signed number is extended by its sign: the register may be wider.
    word, into = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{size}"), "u64"
    if address.parameter:

        def from_arguments(machine: Any, lanes: Any) -> None:
            for i, row in enumerate(rows):
                at = address.offset + i * size
                machine.write(into, row, lanes, machine.arguments[at : at + size].view(word)[0])

        return from_arguments
    if "param" in ins.modifiers:

        def from_chosen_argument(machine: Any, lanes: Any) -> None:
            begins = addresses_of(machine, address, lanes, False) - ARGUMENTS_BASE
            check_alignment(begins, size)
            if (begins < 0).any() or (begins + size > machine.kernel.parameter_bytes).any():
                raise Fault("out of bounds: no argument is there")
            machine.write(into, rows[0], lanes, machine.arguments[begins[:, None] + np.arange(size)].view(word)[:, 0])

        return from_chosen_argument
    shared, whole = is_shared(ins), size * len(rows)

    def run(machine: Any, lanes: Any) -> None:
        addresses = addresses_of(machine, address, lanes, shared)
        # Read everything before writing anything: the address may be one of the destinations.
        found = np.empty((len(rows), len(addresses)), f"u{size}")
        for block, places, which in vectors(machine, ins, addresses, whole, lanes):
            if block.shadow is not None:
                units = (places - SHARED_BASE) // whole
                machine.ordering.load(machine.warp.index, block.shadow, units, whole, ins)
            for i in range(len(rows)):
                found[i, which] = block.load(places + i * size, size)
            if not shared and is_early(machine):
                # A volatile read, on which nothing may depend: the launch before may write something else there.
                found[:, which] = scrambled(places, size)
        for row, values in zip(rows, found, strict=True):
            machine.write(into, row, lanes, values.view(word))

    return run


def scrambled(places: np.ndarray, size: int) -> np.ndarray:
    """Bits that depend on the address and have nothing to do with what is there."""
    return (places.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - 8 * size)).astype(f"u{size}")


def _check_end(block: Any, places: np.ndarray, size: int) -> None:
    """Checks the last words of a vector; the first word decided which block it is in."""
    if bounds(places, size)[1] > block.end:
        bad = int(places[places + size > block.end][0])
        raise Fault(f"out of bounds: {size} bytes at {bad:#x}, {bad + size - block.end} of them after the end")


@operation("st", CACHES + "async mbarrier::complete_tx::bytes")
def _store(ins: Instruction) -> Run:
    if "async" in ins.modifiers:
        return send(ins)
    address, source, *_ = ins.operands
    rows = source if isinstance(source, tuple) else (source,)
    size = bits_of(ins.type) // 8
    shared, whole = is_shared(ins), size * len(rows)

    def run(machine: Any, lanes: Any) -> None:
        addresses = addresses_of(machine, address, lanes, shared)
        for block, places, which in vectors(machine, ins, addresses, whole, lanes):
            note_store(machine, ins, block, places, whole, lanes)
            for i, row in enumerate(rows):
                block.store(places + i * size, size, machine.read(f"b{8 * size}", row, lanes)[which])

    return run


def note_store(machine: Any, ins: Instruction, block: Any, places: np.ndarray, size: int, lanes: Any) -> None:
    if block.shadow is not None:
        warp, units = machine.warp, (places - SHARED_BASE) // size
        machine.ordering.store(warp.index, block.shadow, units, size, ins, warp.mask(lanes))


COMBINE: dict[str, Callable[..., Any]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
}  # fmt: skip


@operation("atom red", CACHES + "noftz " + " ".join(COMBINE))
def _atomic(ins: Instruction) -> Run:
    """Lane after lane, in the order of lanes."""
    operands = list(ins.operands)
    to = operands.pop(0) if ins.name == "atom" else None
    address, *values = operands
    if ins.one_of("cas") == "":
        values = values[:1]  # a cache hint
    kind, shared = ins.type, is_shared(ins)
    combine = COMBINE[ins.one_of(*COMBINE)]
    size = bits_of(kind) // 8 * (2 if kind.endswith("x2") else 1)
    columns = [value if isinstance(value, tuple) else (value,) for value in values]
    targets = to if isinstance(to, tuple) else (to,)
    count = len(columns[0])

    def run(machine: Any, lanes: Any) -> None:
        addresses = addresses_of(machine, address, lanes, shared)
        check_alignment(addresses, size * count)
        dtype = machine.views[kind].dtype
        given = [[machine.read(kind, row, lanes) for row in column] for column in columns]
        before = [np.empty(len(addresses), f"u{size}") for _ in targets]
        for block, places, which in parts(machine, ins, addresses, size, lanes):
            note_store(machine, ins, block, places, size, lanes)
            for place, lane in zip(places, np.arange(len(addresses))[which], strict=True):
                for i in range(count):
                    at = np.array([place + i * size])
                    _check_end(block, at, size)
                    raw = block.load(at, size)
                    if i < len(before):
                        before[i][lane] = raw[0]
                    old = raw.view(dtype)
                    new = combine(old, *(column[i][lane] for column in given))
                    block.store(at, size, np.asarray(new).astype(dtype).reshape(-1).view(f"u{size}"))
        for row, values in zip(targets, before, strict=True):
            machine.write(f"b{8 * size}", row, lanes, values)

    return run


@operation("createpolicy", "fractional L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged")
def _policy(ins: Instruction) -> Run:
    return lambda machine, lanes: machine.write("b64", ins.operands[0], lanes, 0)

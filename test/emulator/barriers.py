"""Where warps wait for each other and for copies: barriers of a block and of a cluster, mbarriers, fences, messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arithmetic import bits_of
from .communication import check_together
from .memory import WINDOW, addresses_of
from .operation import YIELD, Flight, Run, Wait, operation
from .ordering import BY_COPIES, Clock, Mark, joined
from .ptx import SHARED_BASE, Fault, Instruction, Unsupported

LARGEST_BYTES = (1 << 20) - 1


# --- barriers of a block and of a cluster -----------------------------------------------------------------------------


@dataclass
class NamedBarrier:
    """The warps that have arrived in this round, and whether they wait. `count`: expected threads; 0: all threads."""

    count: int = 0
    times: int = 0
    here: dict[int, bool] = field(default_factory=dict)
    gathered: Clock | None = None

    def __str__(self) -> str:
        return f"{32 * len(self.here)} of {self.count or 'all'} threads are here"


@dataclass
class ClusterBarrier:
    """The barrier of the cluster."""

    times: int = 0
    gathered: Clock | None = None
    passed: Clock | None = None


def _come(machine: Any, number: int, count: int, waits: bool) -> NamedBarrier:
    warp = machine.warp
    if not 0 <= number < 16:
        raise Fault(f"expected a barrier from 0 to 15, got {number}")
    if count % 32:
        raise Fault(f"expected a multiple of 32 threads, got {count}")
    barrier = machine.named.setdefault((warp.block, number), NamedBarrier())
    if barrier.here and barrier.count != count:
        raise Fault(f"expects {count or 'all'} threads where others expect {barrier.count or 'all'}")
    if warp.index in barrier.here:
        raise Fault("arrives twice before the others have come")
    barrier.count = count
    barrier.here[warp.index] = waits
    barrier.gathered = joined(barrier.gathered, machine.clocks.release(warp.index))
    machine.changes += 1
    return barrier


def _open(machine: Any, block: int, barrier: NamedBarrier) -> None:
    expected = barrier.count or 32 * sum(not warp.done for warp in machine.warps if warp.block == block)
    if 32 * len(barrier.here) == expected:
        for index, waits in barrier.here.items():
            if waits:
                machine.clocks.acquire(index, barrier.gathered)
        barrier.here, barrier.gathered = {}, None
        barrier.times += 1


def _open_cluster(machine: Any) -> None:
    cluster_barrier = machine.cluster_barrier
    if all(warp.arrived > cluster_barrier.times for warp in machine.warps if not warp.done):
        cluster_barrier.passed, cluster_barrier.gathered = (
            joined(cluster_barrier.passed, cluster_barrier.gathered),
            None,
        )
        cluster_barrier.times += 1


def on_exit(machine: Any, warp: Any) -> None:
    """Barriers for all threads do not wait for threads that have exited."""
    for (block, _), barrier in machine.named.items():
        _open(machine, block, barrier)
    _open_cluster(machine)


@operation("bar barrier", "sync warp cta cluster arrive wait relaxed release acquire aligned")
def _barrier(ins: Instruction) -> Run:
    modifiers = ins.modifiers
    if "warp" in modifiers:
        return lambda machine, lanes: check_together(machine, ins.operands[0], lanes)
    if "cluster" in modifiers:

        def cluster(machine: Any, lanes: Any) -> Any:
            check_together(machine, None, lanes)
            warp, cluster_barrier = machine.warp, machine.cluster_barrier
            if "wait" in modifiers:
                if warp.arrived <= warp.met:
                    raise Fault("waits for a cluster barrier at which it has not arrived")
                warp.met += 1
                times = warp.met

                def go_on() -> None:
                    machine.clocks.acquire(warp.index, cluster_barrier.passed)

                if cluster_barrier.times < times:
                    return Wait(ins, lambda: cluster_barrier.times >= times, go_on)
                return go_on()
            if warp.arrived > warp.met:
                raise Fault("arrives twice at a cluster barrier")
            warp.arrived += 1
            machine.changes += 1
            clock = machine.clocks.release(warp.index, "relaxed" in modifiers)
            cluster_barrier.gathered = joined(cluster_barrier.gathered, clock)
            _open_cluster(machine)
            return None

        return cluster
    waits = "arrive" not in modifiers

    def block(machine: Any, lanes: Any) -> Any:
        check_together(machine, None, lanes)
        numbers = [int(machine.read("u32", row, lanes)[0]) for row in ins.operands]
        barrier = _come(machine, numbers[0], numbers[1] if len(numbers) > 1 else 0, waits)
        times = barrier.times
        _open(machine, machine.warp.block, barrier)
        if waits and barrier.times == times:
            return Wait(ins, lambda: barrier.times > times, state=lambda: str(barrier))
        return None

    return block


# --- fences -----------------------------------------------------------------------------------------------------------


@operation(
    "fence membar",
    "acq_rel sc cta gpu sys cluster gl mbarrier_init release acquire proxy async global shared::cta shared::cluster",
)
def _fence(ins: Instruction) -> Run:
    modifiers = ins.modifiers

    def run(machine: Any, lanes: Any) -> None:
        clocks, index = machine.clocks, machine.warp.index
        inits = clocks.part("inits", index)
        if "mbarrier_init" in modifiers or ("async" in modifiers and "global" not in modifiers):
            clocks.learn(index, inits, clocks.now(index))
        if "mbarrier_init" in modifiers:
            only = np.zeros(inits + 1, np.int64)
            only[inits] = clocks.now(index)
            clocks.fenced[index] = joined(clocks.fenced[index], only)
            clocks.of[index, index] += 1
        elif "async" in modifiers:
            if "global" not in modifiers:
                machine.ordering.fence(index, machine.warp.mask(lanes))
        else:
            clocks.fenced[index] = joined(clocks.fenced[index], clocks.release(index))

    return run


# --- mbarriers --------------------------------------------------------------------------------------------------------


@dataclass
class Mbarrier:
    """A phase ends when `count` threads have arrived and all announced bytes have come.

    The clocks that arrivals release are gathered for the next phase, for the barrier's own block and for all blocks.
    """

    block: int
    offset: int
    count: int
    missing: int
    by: Instruction
    warp: int
    time: int
    part: int
    bytes: int = 0
    phase: int = 0
    gathered: list[Clock | None] = field(default_factory=lambda: [None, None])
    passed: list[Clock | None] = field(default_factory=lambda: [None, None])
    seen: dict[int, int] = field(default_factory=dict)

    def advance(self, machine: Any) -> None:
        machine.changes += 1
        if self.missing < 0:
            raise Fault(f"more than {self.count} arrive in phase {self.phase} of the mbarrier {self.name()}")
        if abs(self.bytes) > LARGEST_BYTES:
            raise Fault(f"{self.bytes} bytes are to come in one phase of the mbarrier {self.name()}")
        if self.missing == 0 and self.bytes == 0:
            self.missing = self.count
            self.phase += 1
            over = np.zeros(self.part + 1, np.int64)
            over[self.part] = self.phase
            for i in range(2):
                self.passed[i] = joined(joined(self.passed[i], self.gathered[i]), over)
        self.store(machine)

    def word(self) -> int:
        """Contents of its 64 bits that reveal a stray store."""
        return 0xB << 60 | (self.count & 0xFFFFF) << 40 | (self.missing & 0xFFFFF) << 20 | (self.phase & 0xFFFFF)

    def store(self, machine: Any) -> None:
        machine.shared.blocks[self.block].store(np.array([self.offset]), 8, np.uint64(self.word()))

    def check(self, machine: Any) -> None:
        if int(machine.shared.blocks[self.block].load(np.array([self.offset]), 8)[0]) != self.word():
            raise Fault(f"the mbarrier {self.name()} has been overwritten")

    def name(self) -> str:
        return f"at {self.offset - SHARED_BASE:#x} of block {self.block}"

    def __str__(self) -> str:
        return f"phase {self.phase}: {self.missing} of {self.count} arrivals and {self.bytes} bytes missing"


def _place(machine: Any, address: int, own: int) -> tuple[int, int]:
    block, offset = (int(x[0]) for x in machine.shared.place(np.array([address]), np.array([own])))
    machine.shared.parts(np.array([address]), np.array([own]), 8)
    return block, offset


def mbarrier_at(machine: Any, address: int, own: int, by_copy: bool = False) -> Mbarrier:
    """The mbarrier at an address, which this warp must know to be initialised; if a copy completes it, with the fence
    that this requires."""
    block, offset = _place(machine, address, own)
    if (block, offset) not in machine.mbarriers:
        raise Fault(f"no mbarrier has been initialised at {offset - SHARED_BASE:#x} of block {block}")
    barrier = machine.mbarriers[block, offset]
    clocks, index = machine.clocks, machine.warp.index
    fenced = clocks.knows(index, clocks.part("inits", barrier.warp), barrier.time)
    if not fenced and not clocks.knows(index, barrier.warp, barrier.time):
        raise Fault(f"nothing orders this behind the initialisation of the mbarrier {barrier.name()}: {barrier.by}")
    if not fenced and by_copy:
        raise Fault(f"the mbarrier {barrier.name()} was initialised without a fence behind it: {barrier.by}")
    barrier.check(machine)
    return barrier


def _initialise(ins: Instruction) -> Run:
    address, amount = ins.operands

    def init(machine: Any, lanes: Any) -> None:
        addresses, counts = addresses_of(machine, address, lanes, True), machine.read("u32", amount, lanes)
        clocks, index = machine.clocks, machine.warp.index
        for at, own, count in zip(addresses, machine.blocks[lanes], counts, strict=True):
            key = _place(machine, int(at), int(own))
            if key in machine.mbarriers:
                raise Fault(f"initialises the mbarrier {machine.mbarriers[key].name()} while it is one")
            if not 1 <= int(count) <= LARGEST_BYTES:
                raise Fault(f"expected 1 to {LARGEST_BYTES} arrivals, got {int(count)}")
            shadow = machine.shared.blocks[key[0]].shadow
            if shadow is not None:
                machine.ordering.store_barrier(index, shadow, (key[1] - SHARED_BASE) // 8, ins)
            part = clocks.part("mbarrier", *key, machine.steps)
            machine.mbarriers[key] = Mbarrier(*key, int(count), int(count), ins, index, clocks.now(index), part)
            machine.mbarriers[key].store(machine)

    return init


def _invalidate(ins: Instruction) -> Run:
    def inval(machine: Any, lanes: Any) -> None:
        for at, own in zip(addresses_of(machine, ins.operands[0], lanes, True), machine.blocks[lanes], strict=True):
            barrier = mbarrier_at(machine, int(at), int(own))
            del machine.mbarriers[barrier.block, barrier.offset]
            shadow = machine.shared.blocks[barrier.block].shadow
            if shadow is not None:
                machine.ordering.forget(shadow, (barrier.offset - SHARED_BASE) // 8, 8)

    return inval


def _arrive(ins: Instruction) -> Run:
    to, address, *amount = ins.operands
    modifiers = ins.modifiers
    wide = "cluster" in modifiers
    # An arrival without a scope at another block's barrier says that the warp has read, as in hardware: none of its own
    # reads is in flight. It does not release what the warp wrote; nothing here distinguishes the two.
    plain = not {"cta", "cluster"} & set(modifiers)
    if "shared::cluster" in modifiers and to is not None:
        raise Unsupported(f"{ins}: the state of a barrier of another block")

    def arrive(machine: Any, lanes: Any) -> None:
        addresses, owners = addresses_of(machine, address, lanes, True), machine.blocks[lanes]
        numbers = machine.read("u32", amount[0], lanes) if amount else np.ones(len(addresses), np.uint32)
        phases = np.empty(len(addresses), np.uint64)
        warp = machine.warp
        clock = machine.clocks.release(warp.index, "relaxed" in modifiers)
        for i, (at, own, number) in enumerate(zip(addresses, owners, numbers, strict=True)):
            barrier = mbarrier_at(machine, int(at), int(own))
            if barrier.block != warp.block and "shared::cta" in modifiers:
                raise Fault(f"arrives at block {barrier.block} as if it were its own")
            phases[i] = barrier.phase
            expects = "expect_tx" in modifiers
            barrier.bytes += int(number) if expects else 0
            barrier.missing -= 1 if expects else int(number)
            if plain or barrier.block == warp.block:
                barrier.gathered[0] = joined(barrier.gathered[0], clock)
            if plain or wide or barrier.block == warp.block:
                barrier.gathered[1] = joined(barrier.gathered[1], clock)
            barrier.advance(machine)
        machine.write("b64", to, lanes, phases)

    return arrive


def _count_bytes(ins: Instruction) -> Run:
    address, amount = ins.operands
    sign = 1 if "expect_tx" in ins.modifiers else -1

    def count(machine: Any, lanes: Any) -> None:
        addresses, owners = addresses_of(machine, address, lanes, True), machine.blocks[lanes]
        for at, own, number in zip(addresses, owners, machine.read("u32", amount, lanes), strict=True):
            barrier = mbarrier_at(machine, int(at), int(own))
            barrier.bytes += sign * int(number)
            barrier.advance(machine)

    return count


def _wait(ins: Instruction) -> Run:
    to, address, state, *_ = ins.operands
    by_parity, wide = "parity" in ins.modifiers, "cluster" in ins.modifiers

    def is_over(barrier: Mbarrier, warp: int, seen: int, skips: bool) -> bool:
        if not by_parity:
            if not barrier.phase - 1 <= seen <= barrier.phase:
                raise Fault(f"asks for phase {seen} when phase {barrier.phase} is under way")
            return barrier.phase > seen
        if seen > 1:
            raise Fault(f"expected a parity of 0 or 1, got {seen}")
        last = barrier.seen.get(warp)
        if last is not None and barrier.phase >= last + 2 and last % 2 == seen and not skips:
            raise Fault(
                f"is overrun: it waits for the end of phase {last} by its parity, and phase {barrier.phase} "
                f"is under way at the mbarrier {barrier.name()}"
            )
        return barrier.phase % 2 != seen

    def wait(machine: Any, lanes: Any) -> Any:
        addresses, owners = addresses_of(machine, address, lanes, True), machine.blocks[lanes]
        states = machine.read("u32", state, lanes)
        warp, asked = machine.warp, list(zip(addresses.tolist(), owners.tolist(), states.tolist(), strict=True))
        over = dict.fromkeys(asked, False)
        for at, own, seen in over:
            barrier = mbarrier_at(machine, at, own)
            if barrier.block != warp.block:
                raise Fault(f"waits at the mbarrier {barrier.name()}, which is not its own block")
            attempt = ins.line, barrier.offset, barrier.phase
            if is_over(barrier, warp.index, seen, machine.skips):
                over[at, own, seen] = True
                machine.clocks.acquire(warp.index, None if "relaxed" in ins.modifiers else barrier.passed[wide])
                barrier.seen[warp.index] = barrier.phase
            elif attempt in warp.tried and not warp.impatient:
                # It tries again once the phase is over, as a loop around it would.
                phase = barrier.phase
                return Wait(ins, lambda b=barrier, p=phase: b.phase > p, again=True, state=lambda b=barrier: str(b))
            else:
                # The first attempt gives up, as it may: code without a loop would continue too early.
                warp.tried.add(attempt)
        machine.write("pred", to, lanes, [over[one] for one in asked])
        done = all(over.values())
        warp.impatient = warp.impatient and done
        return None if done else YIELD

    return wait


@operation(
    "mbarrier",
    "init inval arrive expect_tx complete_tx try_wait test_wait parity shared::cta shared shared::cluster release "
    "acquire relaxed cta cluster",
)
def _mbarrier(ins: Instruction) -> Run:
    for word, make in (("init", _initialise), ("inval", _invalidate), ("arrive", _arrive), ("try_wait", _wait),
                       ("test_wait", _wait), ("expect_tx", _count_bytes), ("complete_tx", _count_bytes)):  # fmt: skip
        if word in ins.modifiers:
            return make(ins)
    raise Unsupported(f"{ins}: an mbarrier cannot do this")


def send(ins: Instruction) -> Run:
    """st.async: data and its byte count arrive later, together; so do those of lanes that signal one mbarrier."""
    to, source, counter = ins.operands
    rows = source if isinstance(source, tuple) else (source,)
    size = bits_of(ins.type) // 8

    def run(machine: Any, lanes: Any) -> None:
        addresses = addresses_of(machine, to, lanes, True)
        counters, owners = addresses_of(machine, counter, lanes, True), machine.blocks[lanes]
        values = [machine.read(f"b{8 * size}", row, lanes).copy() for row in rows]
        for at, own in sorted(set(zip(counters.tolist(), owners.tolist(), strict=True))):
            told = np.flatnonzero((counters == at) & (owners == own))
            barrier = mbarrier_at(machine, at, own, by_copy=True)
            if (addresses[told] >> WINDOW != at >> WINDOW).any():
                raise Fault("the data and its mbarrier are in different blocks")
            data = np.stack([value[told] for value in values], axis=1).ravel()
            places = (addresses[told][:, None] + np.arange(len(values)) * size).ravel()
            for block, offsets, _ in machine.shared.parts(places, np.full(len(places), own), size):
                if block.shadow is not None:
                    index = machine.warp.index
                    mark = Mark(barrier.part, barrier.phase + 1, ins, index)
                    units = (offsets - SHARED_BASE) // size
                    machine.ordering.begin_write(index, block.shadow, units, size, mark, BY_COPIES)

            def land(places: Any = places, own: int = own, data: Any = data, barrier: Mbarrier = barrier) -> None:
                for block, offsets, which in machine.shared.parts(places, np.full(len(places), own), size):
                    block.store(offsets, size, data[which])
                barrier.bytes -= data.size * size
                barrier.advance(machine)

            machine.depart(Flight(ins, land))

    return run

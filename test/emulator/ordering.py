"""Which accesses to shared memory are ordered: clocks of warps, and marks on the bytes.

A clock says how far each part of the program has come, as far as a warp knows. Parts are warps and asynchronous work:
the groups of a warp's copies or products, the phases of an mbarrier. A warp learns of another's progress where it waits
for something that the other released afterwards. Each byte has the marks of its last writer and of its readers since:
an access is in order if the warp knows of them, whatever the order in which things happened to run.

Two proxies reach shared memory: threads use the generic one, the copy engine and warpgroup products the asynchronous
one. The latter sees what a thread wrote only after a `fence.proxy.async` of that thread.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ptx import Fault, Instruction

Clock = np.ndarray
ALL_LANES = 0xFFFFFFFF
# The kind of access, which determines what must be ordered. Between threads: a read and a write, unless they are
# volatile, relaxed or atomic; two writes may store the same value. Copies by threads (cp.async) need no fence.
BY_ATOMICS, BY_THREADS, BY_COPIES, BY_PROXY = range(4)


def joined(one: Clock | None, other: Clock | None) -> Clock | None:
    if one is None or other is None:
        return other if one is None else one
    if len(one) < len(other):
        one, other = other, one
    result = one.copy()
    np.maximum(result[: len(other)], other, out=result[: len(other)])
    return result


class Clocks:
    """What each warp knows. A warp is itself a part, whose time advances whenever others may learn of it."""

    def __init__(self, warps: int):
        self.warps = warps
        self.parts: dict[Hashable, int] = {}
        self.of = np.zeros((warps, 2 * warps + 64), np.int64)
        self.of[range(warps), range(warps)] = 1
        # What a relaxed arrival releases: what the warp knew at its last fence.
        self.fenced: list[Clock | None] = [None] * warps

    def part(self, *key: Hashable) -> int:
        if key not in self.parts:
            self.parts[key] = self.warps + len(self.parts)
            if self.parts[key] >= self.of.shape[1]:
                self.of = np.pad(self.of, ((0, 0), (0, self.of.shape[1])))
        return self.parts[key]

    def now(self, warp: int) -> int:
        return int(self.of[warp, warp])

    def knows(self, warp: int, part: int, time: int) -> bool:
        return bool(self.of[warp, part] >= time)

    def learn(self, warp: int, part: int, time: int) -> None:
        self.of[warp, part] = max(int(self.of[warp, part]), time)

    def acquire(self, warp: int, clock: Clock | None) -> None:
        if clock is not None:
            mine = self.of[warp, : len(clock)]
            np.maximum(mine, clock, out=mine)

    def release(self, warp: int, relaxed: bool = False) -> Clock | None:
        if relaxed:
            return self.fenced[warp]
        clock = self.of[warp].copy()
        self.of[warp, warp] += 1
        return clock


@dataclass(frozen=True)
class Mark:
    """The writer of a byte. `fence`: the part that counts the writer's proxy fences; None if none is needed."""

    part: int
    time: int
    by: Instruction
    warp: int
    mask: int = ALL_LANES
    fence: int | None = None
    is_barrier: bool = False
    is_atomic: bool = False


class Shadow:
    """The marks of one block's shared memory: the index of a mark for each byte."""

    def __init__(self, size: int):
        self.wrote = np.zeros(size, np.int32)
        self.read = np.zeros(size, np.int32)


FEW = 8
RACING = frozenset(("volatile", "relaxed", "acquire", "release"))


def _is_atomic(ins: Instruction) -> bool:
    """Whether an access may race with others."""
    return ins.name in ("atom", "red") or not RACING.isdisjoint(ins.modifiers)


def _distinct(numbers: np.ndarray) -> list[int]:
    """The different numbers, in ascending order: one after the other, as there are rarely more than a few."""
    found: list[int] = []
    rest = numbers.reshape(-1)
    while len(rest):
        if len(found) == FEW:
            return np.unique(numbers).tolist()
        found.append(int(rest[0]))
        rest = rest[rest != rest[0]]
    return sorted(found)


class Order:
    """Checks and marks accesses of one program. Places count units of `size` bytes from where the block begins."""

    def __init__(self, clocks: Clocks):
        self.clocks = clocks
        self.marks: list[Mark | None] = [None]
        self.numbers: dict[tuple[Any, ...], int] = {}
        # Sets of readers: the time of each part, and the instruction.
        self.readers: list[dict[int, tuple[int, Instruction]]] = [{}]
        self.sets: dict[tuple[int, int, int], int] = {}
        # Fences by only some lanes of a warp.
        self.partial: dict[int, set[int]] = {}

    # --- fences

    def fence_part(self, warp: int, mask: int = ALL_LANES) -> int:
        return self.clocks.part("fence", warp, mask)

    def fence(self, warp: int, mask: int) -> None:
        """`fence.proxy.async` by some lanes: covers what they wrote, and the copies that the warp has waited for."""
        clocks = self.clocks
        clocks.learn(warp, self.fence_part(warp, mask), clocks.now(warp))
        if mask != ALL_LANES:
            self.partial.setdefault(warp, set()).add(mask)
        else:
            # A new part may reallocate the clocks, so look up clocks.of afterwards.
            fence, copies = clocks.part("fence copies", warp), clocks.part("copies", warp)
            clocks.learn(warp, fence, int(clocks.of[warp, copies]))
        clocks.of[warp, warp] += 1

    def _is_fenced(self, warp: int, mark: Mark) -> bool:
        if mark.fence is None or self.clocks.knows(warp, mark.fence, mark.time):
            return True
        masks = [mask for mask in self.partial.get(mark.warp, ()) if mask & mark.mask == mark.mask]
        return any(self.clocks.knows(warp, self.fence_part(mark.warp, mask), mark.time) for mask in masks)

    # --- accesses of threads

    def load(self, warp: int, shadow: Shadow, places: Any, size: int, ins: Instruction) -> None:
        how = BY_ATOMICS if _is_atomic(ins) else BY_THREADS
        for number in _distinct(shadow.wrote.reshape(-1, size)[places]):
            mark = self.marks[number]
            if mark is not None:
                self._check_seen(warp, mark, "reads", how)
        if how == BY_THREADS:
            self._note_reader(shadow, places, size, warp, self.clocks.now(warp), ins)

    def store(self, warp: int, shadow: Shadow, places: Any, size: int, ins: Instruction, mask: int) -> None:
        atomic = _is_atomic(ins)
        self._check_write(warp, shadow, places, size, BY_ATOMICS if atomic else BY_THREADS)
        mark = Mark(warp, self.clocks.now(warp), ins, warp, mask, self.fence_part(warp), is_atomic=atomic)
        self._write(shadow, places, size, mark)

    def store_barrier(self, warp: int, shadow: Shadow, place: int, ins: Instruction) -> None:
        self._check_write(warp, shadow, place, 8, BY_THREADS)
        self._write(shadow, place, 8, Mark(warp, self.clocks.now(warp), ins, warp, is_barrier=True))

    def forget(self, shadow: Shadow, place: int, size: int) -> None:
        shadow.wrote.reshape(-1, size)[place] = 0

    # --- accesses that threads only begin

    def begin_read(self, warp: int, shadow: Shadow, places: Any, part: int, time: int, ins: Instruction) -> None:
        """Begins a read by the asynchronous proxy: 16 bytes each, until part `part` is at `time`."""
        for number in _distinct(shadow.wrote.reshape(-1, 16)[places]):
            mark = self.marks[number]
            if mark is not None:
                self._check_seen(warp, mark, "reads", BY_PROXY)
        self._note_reader(shadow, places, 16, part, time, ins)

    def begin_write(self, warp: int, shadow: Shadow, places: Any, size: int, mark: Mark, how: int) -> None:
        """Begins a write that lasts until the mark's part is at its time."""
        self._check_write(warp, shadow, places, size, how)
        self._write(shadow, places, size, mark)

    # --- marks

    def _check_seen(self, warp: int, mark: Mark, does: str, how: int) -> None:
        if mark.is_barrier:
            raise Fault(f"{does} the mbarrier of {mark.by} as if it were data")
        beside = mark.part >= self.clocks.warps
        checked = how >= BY_COPIES or (how == BY_THREADS and does == "reads" and not mark.is_atomic)
        if not self.clocks.knows(warp, mark.part, mark.time) and (beside or checked):
            if beside:
                raise Fault(f"{does} what nobody has waited for: it is filled by {mark.by}")
            raise Fault(f"{does} what warp {mark.warp} wrote, with nothing in between that orders them: {mark.by}")
        if how == BY_PROXY and not self._is_fenced(warp, mark):
            raise Fault(f"{does} what warp {mark.warp} wrote without a fence.proxy.async behind it: {mark.by}")

    def _check_write(self, warp: int, shadow: Shadow, places: Any, size: int, how: int) -> None:
        for number in _distinct(shadow.wrote.reshape(-1, size)[places]):
            mark = self.marks[number]
            if mark is not None:
                self._check_seen(warp, mark, "overwrites", how)
        for number in _distinct(shadow.read.reshape(-1, size)[places]):
            for part, (time, by) in self.readers[number].items():
                if self.clocks.knows(warp, part, time):
                    continue
                if part >= self.clocks.warps:
                    raise Fault(f"overwrites what is still being read by {by}")
                if how != BY_ATOMICS:
                    raise Fault(f"overwrites what warp {part} reads, with nothing in between that orders them: {by}")

    def _write(self, shadow: Shadow, places: Any, size: int, mark: Mark) -> None:
        key = mark.part, mark.time, mark.by.line, mark.mask, mark.is_barrier
        if key not in self.numbers:
            self.numbers[key] = len(self.marks)
            self.marks.append(mark)
        shadow.wrote.reshape(-1, size)[places] = self.numbers[key]
        shadow.read.reshape(-1, size)[places] = 0

    def _note_reader(self, shadow: Shadow, places: Any, size: int, part: int, time: int, ins: Instruction) -> None:
        view = shadow.read.reshape(-1, size)
        before = view[places]
        numbers = _distinct(before)
        after = [self._with_reader(number, part, time, ins) for number in numbers]
        view[places] = after[0] if len(numbers) == 1 else np.array(after, np.int32)[np.searchsorted(numbers, before)]

    def _with_reader(self, number: int, part: int, time: int, ins: Instruction) -> int:
        if (number, part, time) not in self.sets:
            readers = self.readers[number]
            if part in readers and readers[part][0] >= time:
                self.sets[number, part, time] = number
            else:
                self.sets[number, part, time] = len(self.readers)
                self.readers.append({**readers, part: (time, ins)})
        return self.sets[number, part, time]

"""Products by groups of four warps (wgmma): operands in shared memory by descriptors, and what is in flight.

Each warp computes its own sixteen rows at its instruction. What the machine leaves undefined until the wait is an error
here: registers in flight that something else touches, memory that is written, a missing fence.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .communication import check_together
from .fragments import BITS, check_integers, numbers, read_left, read_sum, write_sum
from .memory import chunks_of
from .operation import Run, operation
from .ptx import Fault, Instruction, Unsupported
from .tensor_map import swizzled

WARPS = 4
ROWS = 16
# Bytes of K that one instruction multiplies.
DEPTH = 32
SHAPES = {f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32)}
SPANS = {0: 0, 1: 128, 2: 64, 3: 32}


@dataclass
class Products:
    """The products that a warp has begun. Registers: the group that they are in flight with."""

    closed: int = 0
    done: int = 0
    sums: dict[int, int] = field(default_factory=dict)
    factors: dict[int, int] = field(default_factory=dict)
    # When registers were last written, and the last wgmma.fence, in steps of the machine.
    written: dict[int, int] = field(default_factory=dict)
    fenced: int = -1
    issued: list[tuple[Any, ...]] = field(default_factory=list)

    def check(self, ins: Instruction, step: int) -> None:
        if ins.name == "wgmma":
            return
        for row in (*ins.reads, *ins.writes):
            if row in self.sums:
                raise Fault("touches an accumulator in flight: no wgmma.wait_group covers its product")
        for row in ins.writes:
            if row in self.factors:
                raise Fault("writes a register that a product in flight reads: no wgmma.wait_group covers it")
            self.written[row] = step

    def wait(self, pending: int) -> None:
        self.done = max(self.done, self.closed - pending)
        self.sums = {row: group for row, group in self.sums.items() if group > self.done}
        self.factors = {row: group for row, group in self.factors.items() if group > self.done}


@operation("wgmma", "fence mma_async commit_group wait_group sync aligned satfinite " + " ".join(SHAPES))
def _wgmma(ins: Instruction) -> Run:
    if "fence" in ins.modifiers:
        return _fence
    if "commit_group" in ins.modifiers:
        return _close_group
    if "wait_group" in ins.modifiers:
        return _wait(ins)
    return _multiply(ins)


def _fence(machine: Any, lanes: Any) -> None:
    check_together(machine, None, lanes)
    machine.warp.products.fenced = machine.steps


def _close_group(machine: Any, lanes: Any) -> None:
    check_together(machine, None, lanes)
    machine.warp.products.closed += 1


def _wait(ins: Instruction) -> Run:
    def wait(machine: Any, lanes: Any) -> None:
        check_together(machine, None, lanes)
        warp = machine.warp
        warp.products.wait(int(machine.read("u32", ins.operands[0], lanes)[0]))
        machine.clocks.learn(warp.index, machine.clocks.part("products", warp.index), warp.products.done)

    return wait


# --- factors in shared memory -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descriptor:
    """Start and the two offsets in bytes; `span`: bytes of a swizzled row, 0 where there is no swizzle."""

    start: int
    leading: int
    stride: int
    span: int

    @staticmethod
    def decode(word: int) -> Descriptor:
        if word >> 49 & 7:
            raise Unsupported("a matrix descriptor with a base offset")
        return Descriptor(
            (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4, SPANS[word >> 62]
        )

    def along_depth(self, first: int, count: int) -> np.ndarray:
        """Where the two 16-byte chunks along K begin, for rows from `first` on: [row, which].

        Eight rows are stacked, a swizzled row or 16 bytes apart; the next eight begin one stride further. Without a
        swizzle the second chunk is one leading offset away; in a swizzled row it is the next.
        """
        row, which = np.ogrid[first : first + count, :2]
        if not self.span:
            return self.start + row // 8 * self.stride + row % 8 * 16 + which * self.leading
        if self.start % self.span + DEPTH > self.span:
            raise Fault(f"K of the descriptor crosses the end of a row of {self.span} bytes")
        return self.start + row // 8 * self.stride + row % 8 * self.span + which * 16

    def across(self, first: int, count: int, depth: int) -> np.ndarray:
        """The same for an operand that is contiguous along M or N: [eight of M or N, K].

        Eight rows of K are stacked. With a swizzle, the next eight of K begin one stride further, and the continuation
        of a row along M or N one leading offset further; without a swizzle a row is one group of eight, and the two
        offsets are exchanged.
        """
        eight, k = np.ogrid[first : first + count, :depth]
        if not self.span:
            return self.start + eight * self.stride + k % 8 * 16 + k // 8 * self.leading
        each = self.span // 16
        return self.start + eight % each * 16 + eight // each * self.leading + k % 8 * self.span + k // 8 * self.stride


@functools.lru_cache(maxsize=4096)
def _chunks(word: int, transposed: bool, first: int, count: int, depth: int) -> tuple[np.ndarray, int, int]:
    """The 16-byte chunks of an operand in shared memory, where the first begins and where the last ends."""
    descriptor = Descriptor.decode(word)
    if transposed:
        addresses = descriptor.across(first // 8, count // 8, depth)
    else:
        addresses = descriptor.along_depth(first, count)
    return chunks_of(swizzled(addresses, descriptor.span))


def _factor(
    machine: Any, ins: Instruction, word: int, kind: str, transposed: bool, first: int, count: int
) -> np.ndarray:
    """Rows (for the right operand: columns) from `first` on by K, of an operand given by a descriptor."""
    depth = DEPTH * 8 // BITS[kind]
    warp, block = machine.warp, machine.shared.blocks[machine.warp.block]
    chunks, *ends = _chunks(word, transposed, first, count, depth)
    machine.shared.check_chunks(warp.block, *ends)
    part = machine.clocks.part("products", warp.index)
    machine.ordering.begin_read(warp.index, block.shadow, chunks, part, warp.products.closed + 1, ins)
    raw = block.words[1].reshape(-1, 16)[chunks]
    if not transposed:
        return numbers(kind, raw.reshape(count, DEPTH))
    return numbers(kind, raw).transpose(0, 2, 1).reshape(count, depth)


# --- the product ------------------------------------------------------------------------------------------------------


def _one(machine: Any, row: int, lanes: Any, kind: str = "b64") -> int:
    values = machine.read(kind, row, lanes)
    if np.count_nonzero(values != values[0]):
        raise Fault("lanes of a warp give different operands")
    return int(values[0])


def _check_group(machine: Any, key: tuple[Any, ...]) -> None:
    """All four warps begin the same products, in the same order."""
    warp = machine.warp
    per_block = machine.kernel.threads // 32
    first = warp.block * per_block + warp.number // WARPS * WARPS
    if warp.number // WARPS * WARPS + WARPS > per_block:
        raise Fault(f"expected a group of four warps from a multiple of four on, got the end of {per_block} warps")
    issued = warp.products.issued
    for other in machine.warps[first : first + WARPS]:
        theirs = other.products.issued
        if len(theirs) > len(issued) and theirs[len(issued)] != key:
            raise Fault(
                f"warp {other.number} of the group has begun another product in its place: {theirs[len(issued)][0]}"
            )
    issued.append(key)


def check_end(machine: Any, block: int) -> None:
    """Checks that all four warps of a group have done what they do together."""
    warps = [warp for warp in machine.warps if warp.block == block]
    for first in range(0, len(warps), WARPS):
        group = warps[first : first + WARPS]
        for other in group[1:]:
            if len(other.products.issued) != len(group[0].products.issued):
                raise Fault(
                    f"warps {group[0].number} and {other.number} of one group begin different numbers of products"
                )
            if other.adjusted != group[0].adjusted:
                texts = " and ".join("; ".join(warp.adjusted) or "nothing" for warp in (group[0], other))
                raise Fault(
                    f"warps {group[0].number} and {other.number} of one group set registers differently: {texts}"
                )


# Fraction bits that sums of 8-bit floats keep, relative to the exponent of the largest addend.
FRACTION = 13


def narrow_sum(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """acc + a @ b.T as Hopper sums 8-bit floats in f32: all addends of an instruction are truncated toward zero, 13
    bits below the leading bit of the largest, and then added."""
    addends = np.concatenate([a[:, None, :] * b[None, :, :], acc[:, :, None]], axis=2)
    largest = np.abs(addends).max(axis=2, keepdims=True)
    finite = np.isfinite(largest)
    unit = np.exp2(np.frexp(np.where(finite, largest, 1))[1] - 1.0 - FRACTION)
    return np.where(finite, np.trunc(addends / unit) * unit, addends).sum(axis=2)


def _multiply(ins: Instruction) -> Run:
    to, left, right, scale, *rest = ins.operands
    kind, left_kind, right_kind = ins.types
    columns, depth = (int(n) for n in re.findall(r"\d+", ins.one_of(*SHAPES))[1:])
    from_registers = isinstance(left, tuple)
    integers = kind == "s32"
    scales, transposes = ([], rest) if integers else (rest[:2], rest[2:])
    wanted = 0 if BITS[left_kind] != 16 else 1 if from_registers else 2
    families: tuple[tuple[str, ...], ...] = ("f16",), ("bf16",), ("tf32",), ("e4m3", "e5m2"), ("s8", "u8")
    family = next((family for family in families if left_kind in family), ())
    if depth * BITS[left_kind] != DEPTH * 8 or right_kind not in family or len(transposes) != wanted:
        raise Unsupported(f"{ins}: a product of this form")
    if integers != (left_kind in ("s8", "u8")) or (kind == "f16" and left_kind in ("bf16", "tf32")):
        raise Unsupported(f"{ins}: an accumulator of {kind}")
    if integers and columns > 32 and columns % 16:
        raise Unsupported(f"{ins}: {columns} columns of integers")
    registers = columns // 4 if kind == "f16" else columns // 2
    if len(to) != registers or (from_registers and len(left) != 4):
        raise Unsupported(f"{ins}: expected {registers} registers")
    saturate = "satfinite" in ins.modifiers

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, None, lanes)
        warp, products = machine.warp, machine.warp.products
        adds = bool(_one(machine, scale, lanes, "u8"))
        words = tuple(_one(machine, row, lanes) for row in ((right,) if from_registers else (left, right)))
        _check_group(machine, (str(ins), adds, *words))
        for row in (*to, *(left if from_registers else ())):
            if products.fenced <= products.written.get(row, 0):
                raise Fault("a register was written with no wgmma.fence behind it")
        if from_registers and any(row in products.sums for row in left):
            raise Fault("reads an accumulator in flight: no wgmma.wait_group covers its product")
        if any(row in products.factors for row in to):
            raise Fault("writes a register that a product in flight reads: no wgmma.wait_group covers it")
        signs = [_one(machine, row, lanes, "s32") for row in scales]
        if any(sign not in (1, -1) for sign in signs):
            raise Fault(f"expected factors scaled by 1 or -1, got {signs}")
        turned = [bool(_one(machine, row, lanes, "s32")) for row in transposes]
        if from_registers:
            a = read_left(machine, left, left_kind, ROWS, lanes)
        else:
            first = warp.number % WARPS * ROWS
            a = _factor(machine, ins, words[0], left_kind, len(turned) == 2 and turned[0], first, ROWS)
        b = _factor(machine, ins, words[-1], right_kind, bool(turned) and turned[-1], 0, columns)
        if len(signs) == 2 and signs[0] != signs[1]:
            a = -a
        acc = read_sum(machine, to, kind, columns, ROWS, lanes) if adds else np.zeros((ROWS, columns))
        result = narrow_sum(a, b, acc) if family[0] == "e4m3" and kind == "f32" else a @ b.T + acc
        write_sum(machine, to, kind, check_integers(kind, result, saturate), lanes)
        group = products.closed + 1
        products.sums.update(dict.fromkeys(to, group))
        products.factors.update(dict.fromkeys(left if from_registers else (), group))

    return run

"""Memory of the device and of its blocks: bytes that every access is checked against, for bounds and alignment."""

from __future__ import annotations

import bisect
import ctypes
from typing import Any

import numpy as np

from .ordering import Shadow
from .ptx import SHARED_BASE, Address, Fault

WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Addresses of another block's shared memory are 32 bits wide: its rank in the cluster, plus one, above this bit.
WINDOW = 24
MOST_BLOCKS = (1 << 32 - WINDOW) - 2


def addresses_of(machine: Any, address: Address, lanes: Any, shared: bool) -> np.ndarray:
    """Addresses as 64-bit numbers; those of shared memory may be in 32-bit registers."""
    base = machine.read("u32" if shared else "s64", address.row, lanes)
    return base.astype(np.int64) + address.offset


def check_alignment(addresses: np.ndarray, size: int) -> None:
    if int(np.bitwise_or.reduce(addresses, axis=None)) & (size - 1):
        bad = addresses[(addresses & (size - 1)) != 0][0]
        raise Fault(f"misaligned: {size} bytes at {int(bad):#x}")


def bounds(addresses: np.ndarray, size: int) -> tuple[int, int]:
    """From the first byte to the end of the last one, of `size` bytes at each address."""
    return int(np.minimum.reduce(addresses, axis=None)), int(np.maximum.reduce(addresses, axis=None)) + size


def chunks_of(addresses: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The indices of 16-byte chunks of shared memory, where the first begins and where the last ends."""
    check_alignment(addresses, 16)
    return (addresses - SHARED_BASE) >> 4, *bounds(addresses, 16)


class Block:
    """An allocation: its bytes as words of every size."""

    def __init__(self, begin: int, data: np.ndarray):
        self.begin, self.end = begin, begin + data.size
        self.shadow: Shadow | None = None
        # A word at the end may be cut short: no access that is in bounds and aligned reaches it.
        self.words = {size: data[: data.size // size * size].view(word) for size, word in WORDS.items()}

    def load(self, addresses: np.ndarray, size: int) -> np.ndarray:
        return self.words[size][(addresses - self.begin) // size]

    def store(self, addresses: np.ndarray, size: int, values: np.ndarray) -> None:
        self.words[size][(addresses - self.begin) // size] = values


class Global:
    """The allocations of a driver or of a test. An access must lie in one of them."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.begins: list[int] = []
        self.last: Block | None = None

    def add(self, data: np.ndarray) -> int:
        """Makes an array reachable; returns its address."""
        address = int(data.ctypes.data)
        self._insert(Block(address, data.reshape(-1).view(np.uint8)))
        return address

    def gather(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Rows of `size` bytes, any number, that lie in one allocation."""
        block = self.whole(addresses, size)
        return block.words[1][(addresses - block.begin)[:, None] + np.arange(size)]

    def scatter(self, addresses: np.ndarray, rows: np.ndarray) -> None:
        block = self.whole(addresses, rows.shape[1])
        block.words[1][(addresses - block.begin)[:, None] + np.arange(rows.shape[1])] = rows

    def whole(self, addresses: np.ndarray, size: int) -> Block:
        """The allocation that holds all of the rows."""
        low, high = bounds(addresses, size)
        at = bisect.bisect(self.begins, low) - 1
        if at < 0 or high > self.blocks[at].end:
            raise Fault(f"out of bounds: {high - low} bytes at {low:#x} of global memory")
        return self.blocks[at]

    def add_raw(self, address: int, size: int) -> None:
        if size:
            self._insert(Block(address, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))))

    def _insert(self, block: Block) -> None:
        at = bisect.bisect(self.begins, block.begin)
        self.begins.insert(at, block.begin)
        self.blocks.insert(at, block)

    def parts(self, addresses: np.ndarray, size: int) -> list[tuple[Block, Any]]:
        """The blocks that hold `size` bytes at each address, with the lanes of each."""
        check_alignment(addresses, size)
        low, high = bounds(addresses, size)
        if self.last is not None and self.last.begin <= low and high <= self.last.end:
            return [(self.last, slice(None))]
        return self.holders(addresses, size)

    def holders(self, addresses: np.ndarray, size: int) -> list[tuple[Block, Any]]:
        """The same of addresses with any alignment."""
        which = np.searchsorted(self.begins, addresses, side="right") - 1
        found = []
        for index in np.unique(which):
            lanes = np.flatnonzero(which == index)
            block = self.blocks[index] if index >= 0 else None
            if block is None or (addresses[lanes] + size > block.end).any():
                bad = addresses[lanes] if block is None else addresses[lanes][addresses[lanes] + size > block.end]
                near = f", {int(bad[0]) - block.end} bytes after the end of {block.end - block.begin}" if block else ""
                raise Fault(f"out of bounds: {size} bytes at {int(bad[0]):#x} of global memory{near}")
            self.last = block
            found.append((block, lanes))
        return found


class Shared:
    """Shared memory of the blocks of a cluster, which holds junk at first.

    `ended`: blocks whose threads have all gone: their memory is lost.
    """

    def __init__(self, blocks: int, size: int, marked: bool = False):
        self.size = size
        rounded = -(-size // 16) * 16
        self.blocks = [Block(SHARED_BASE, np.full(rounded, 0xC5, np.uint8)) for _ in range(blocks)]
        self.ended: set[int] = set()
        for block in self.blocks if marked else []:
            block.shadow = Shadow(rounded)

    def chunks(self, block: int, addresses: np.ndarray) -> np.ndarray:
        """The index of the 16-byte chunk of a block at each of the addresses."""
        chunks, low, high = chunks_of(addresses)
        self.check_chunks(block, low, high)
        return chunks

    def check_chunks(self, block: int, low: int, high: int) -> None:
        """Checks that the chunks between two addresses are there."""
        if low < SHARED_BASE or high > SHARED_BASE + self.size:
            bad = low if low < SHARED_BASE else high - 16
            raise Fault(f"out of bounds: 16 bytes at {bad - SHARED_BASE} of {self.size} shared bytes")
        if block in self.ended:
            raise Fault(f"the memory of block {block}, which has ended")

    def bytes(self, block: int) -> np.ndarray:
        """The bytes of a block, in rows of 16."""
        return self.blocks[block].words[1].reshape(-1, 16)

    def place(self, addresses: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Block and address within it of each address, which a thread of block `own` uses."""
        ranks = addresses >> WINDOW
        return np.where(ranks > 0, ranks - 1, own), addresses & ((1 << WINDOW) - 1)

    def parts(self, addresses: np.ndarray, own: np.ndarray, size: int) -> list[tuple[Block, np.ndarray, Any]]:
        """The blocks that hold `size` bytes at each address, with the addresses and lanes of each."""
        low, high = bounds(addresses, size)
        first = int(own[0])
        if (low >= SHARED_BASE and high <= SHARED_BASE + self.size and first not in self.ended
            and not (own != first).any()):  # fmt: skip
            # All are in the memory of the threads' own block.
            check_alignment(addresses, size)
            return [(self.blocks[first], addresses, slice(None))]
        owners, offsets = self.place(addresses, own)
        check_alignment(offsets, size)
        if (offsets < SHARED_BASE).any() or (offsets + size > SHARED_BASE + self.size).any():
            bad = offsets[(offsets < SHARED_BASE) | (offsets + size > SHARED_BASE + self.size)][0]
            raise Fault(f"out of bounds: {size} bytes at {int(bad) - SHARED_BASE} of {self.size} shared bytes")
        found = []
        for owner in np.unique(owners):
            if owner >= len(self.blocks):
                raise Fault(f"no block {owner} in a cluster of {len(self.blocks)}")
            if int(owner) in self.ended:
                raise Fault(f"the memory of block {owner}, which has ended")
            lanes = np.flatnonzero(owners == owner)
            found.append((self.blocks[int(owner)], offsets[lanes], lanes))
        return found

"""How a cache is cut for decoding, and the cases and calls of decoding that the demo and the tests run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kiln.kernels.machine import Machine, options
from kiln.kernels.operator import tile_side

if TYPE_CHECKING:
    from kiln.kernels.case import Case

# Bytes of shared memory per multiprocessor that rings may take.
SHARED = 200 << 10
# Fewer cached tokens than this do not deserve their own program: handing in takes longer than reading them.
LEAST_SPLIT = 64
# Tokens of a share that takes longer than handing it in.
LONG_SHARE = 512


@dataclass(frozen=True)
class DecodePlan:
    """A launch of decode: ``rows`` (queries times the heads of a group, padded) against ``tokens`` of the cache per
    step. Eight rows are columns of the products.

    lanes      parts of a step's tokens, each with its own running maximum and sum: one per warp, so that no warp waits
               for
               another before the end
    side       elements of a head, padded
    group      heads of queries that share a head of keys; ``queries`` of each sequence
    splits     most programs that share a sequence; no share is shorter than ``least`` tokens
    stages     slots of the ring that keys and values arrive in, where tensor cores multiply
    merged     parts that the last program loads at once
    bits       bits of an element of the cache (16: or more)
    in_turns   programs that share a sequence take its steps in turns; otherwise a run of steps each
    sequences  sequences of the batch, or slightly more, if shares are equally long: ``splits`` for each head, and at
               most
               one more for each sequence (0: each sequence has ``splits``)
    ahead      pages of a step are looked up two steps ahead, once for keys and values, whose strides are the same
    registers  most registers per thread (0: the assembler's choice, which may spill for more programs than memory
               needs)
    """

    rows: int
    tokens: int
    size: int
    side: int
    group: int
    queries: int = 1
    lanes: int = 1
    splits: int = 1
    least: int = LEAST_SPLIT
    stages: int = 0
    num_warps: int = 4
    merged: int = 8
    bits: int = 16
    in_turns: bool = False
    sequences: int = 0
    ahead: bool = False
    registers: int = 0

    @property
    def blocks(self) -> int:
        """The number of tiles of rows."""
        return -(-self.group * self.queries // self.rows)

    @property
    def in_columns(self) -> bool:
        """Whether queries are columns of the products: tensor cores take eight columns but sixteen rows."""
        return self.rows == 8

    @property
    def axis(self) -> int:
        """The dimension of scores that counts tokens."""
        return 1 if self.in_columns else -1

    @property
    def stride(self) -> int:
        """Tokens from one step of a program to its next."""
        return self.tokens * (self.splits if self.in_turns else 1)

    @property
    def pace(self) -> int:
        """What a loop over a program's steps counts by: steps or tokens."""
        return 1 if self.in_turns else self.tokens

    def grid(self, batch: int, k_heads: int) -> tuple[int, int]:
        if self.sequences:
            return k_heads * self.blocks, self.splits + batch
        return batch * k_heads * self.blocks, self.splits

    def shares(self, tiles: int, batch: int) -> int:
        """The most shares handed in for ``tiles`` tiles of a batch."""
        return tiles // batch * (self.splits + batch) if self.sequences else tiles * self.splits

    def evened(self, batch: int, k_heads: int, machine: Machine) -> DecodePlan:
        """With equally long shares: two for each processor, so that one begun late costs half as much."""
        splits = max(1, 2 * (machine.processors if machine.gpu else 4) // (k_heads * self.blocks))
        return replace(self, sequences=1 << max(0, batch - 1).bit_length(), splits=splits, in_turns=False)

    @property
    def members(self) -> int:
        """The rows of a tile in use, slightly rounded up."""
        return min(self.rows, tile_side(self.group * self.queries, 1))

    @property
    def whole(self) -> bool:
        """Whether heads fill the tiles."""
        return self.size == self.side

    def options(self, machine: Machine) -> dict[str, Any]:
        if not machine.gpu:
            return options()
        chosen: dict[str, Any] = {"num_warps": self.num_warps}
        if self.stages:
            chosen |= {"schedule": "simple", "stages": self.stages}
        if self.registers:
            chosen["maxnreg"] = self.registers
        return options(**chosen)


# Most rows of one tile, and elements of a result that a warp holds: 64 registers per thread.
MOST_ROWS = 64
WARP_ELEMENTS = 2048
WARPS = 4


@functools.lru_cache(maxsize=1024)
def decode_plan(
    batch: int,
    k_heads: int,
    group: int,
    queries: int,
    size: int,
    itemsize: int,
    length: int,
    machine: Machine,
    splits: int | None = None,
    paged: bool = False,
) -> DecodePlan:
    """For ``batch`` sequences of at most ``length`` tokens."""
    side, rows = tile_side(size), group * queries
    if not machine.gpu or itemsize > 2:
        return _without_tensor_cores(batch * k_heads, group, queries, size, length, machine, splits)
    tile = min(tile_side(rows), MOST_ROWS)
    # One lane per warp, if a warp's registers hold the result of one.
    fitting = max(1, WARPS * WARP_ELEMENTS // (tile * side))
    lanes = min(WARPS, 1 << fitting.bit_length() - 1)
    tokens = 16 * WARPS if side <= 128 else 8 * WARPS
    slot = 2 * tokens * side * itemsize
    stages = max(2, min(4, SHARED // 2 // slot))
    # One program per multiprocessor: its ring keeps memory busy, and more shares cost more to hand in. With pages two,
    # if shares are long: addresses take longer to arrive, and each program hides the other's wait.
    tiles = batch * k_heads * -(-rows // tile)
    most = max(1, -(-length // LEAST_SPLIT))
    workers = machine.processors
    if paged and tiles * length >= 2 * workers * LONG_SHARE:
        workers *= 2
    shares = max(1, min(splits or even_splits(tiles, workers), most if splits is None else splits))
    # Steps in turns were never slower in eight rows, and up to 3 % faster: concurrent programs read one run of memory.
    # Looking pages up ahead costs a program with few steps more than it saves.
    shared = shares > 1
    plan = DecodePlan(tile, tokens, size, side, group, queries, lanes, shares, LEAST_SPLIT, stages, WARPS)
    plan = replace(plan, in_turns=shared, ahead=paged and shared)
    return replace(plan, merged=merged_at_once(plan))


def merged_at_once(plan: DecodePlan) -> int:
    """The number of parts that a program's registers hold."""
    return 1 << max(0, (plan.num_warps * WARP_ELEMENTS // (plan.members * plan.side)).bit_length() - 1)


def even_splits(tiles: int, workers: int) -> int:
    """The fewest shares per tile with which programs fill whole waves of workers to at least nine tenths."""
    most = max(1, workers // tiles)
    if tiles < workers:
        return most
    return next((n for n in range(1, 5) if tiles * n / workers / -(-tiles * n // workers) >= 0.9), 4)


def _without_tensor_cores(
    tiles: int, group: int, queries: int, size: int, length: int, machine: Machine, splits: int | None
) -> DecodePlan:
    """Products by multiply-adds: tiles as small as the problem."""
    tokens, least = (32, 256) if machine.gpu else (64, 256)
    shares = max(1, min(-(-256 // max(tiles, 1)), length // least)) if splits is None else max(1, splits)
    rows = min(tile_side(group * queries, 1), 16)
    return DecodePlan(
        rows, tokens, size, tile_side(size), group, queries, splits=shares, least=1 if splits else least, merged=4
    )


def cases() -> list[Case]:
    import numpy as np
    from kiln.kernels.attention import decode, decode_reference
    from kiln.kernels.case import Case

    def cache(batch, length, heads, k_heads, size):
        def make(rng):
            k, v = rng.standard_normal((2, batch, length, k_heads, size), dtype=np.float32)
            q = rng.standard_normal((batch, heads, size), dtype=np.float32)
            return {"q": q, "k": k, "v": v, "lengths": np.full(batch, length, np.int32)}

        return make

    return [
        Case(
            "decode_attention",
            "4 × 4096 cached, 32+8 heads of 128",
            cache(4, 4096, 32, 8, 128),
            decode.decode_attention,
            decode_reference.decode_attention,
            bytes=2 * 4 * 4 * 4096 * 8 * 128,
            length=4096,
        ),
    ]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the kernels, on uninitialised arrays."""
    import numpy as np
    from kiln.kernels.attention import decode, quantized
    from kiln.kernels.attention.append import append, append_quantized

    lengths, table = np.empty(4, np.int32), np.empty((4, 256), np.int32)
    for dtype in (np.float32, np.float16):
        q, k, pages = (np.empty(s, dtype) for s in ((4, 32, 128), (4, 4096, 8, 128), (1024, 16, 8, 128)))
        name = f"decode_attention {np.dtype(dtype)}"
        yield name, lambda q=q, k=k: decode.decode_attention(q, k, np.empty_like(k), lengths, return_lse=True)
        yield (
            name + " paged",
            lambda q=q, k=pages: decode.decode_attention(q, k, np.empty_like(k), lengths, block_table=table),
        )
    several = np.empty((4, 4, 32, 128), np.float16)
    k = np.empty((4, 4096, 8, 128), np.float16)
    yield (
        "decode_attention float16, 4 queries, window",
        lambda: decode.decode_attention(several, k, np.empty_like(k), lengths, window=1024),
    )
    q, k = np.empty((4, 1, 32, 128), np.float16), np.empty((4, 1, 8, 128), np.float16)
    v, k_cache, v_cache = np.empty_like(k), *(np.empty((4, 4096, 8, 128), np.float16) for _ in range(2))
    cos, sin = np.empty((4096, 64), np.float32), np.empty((4096, 64), np.float32)
    yield "append float16", lambda: append(q, k, v, k_cache, v_cache, lengths, cos, sin)
    for bits in (8, 4):
        cache = quantized.quantized_cache(4, 4096, 8, 128, bits, np.empty(0, np.float16))
        recent = {"k_recent": cache.k_recent, "v_recent": cache.v_recent}
        yield (
            f"append_quantized, {bits} bits",
            lambda c=cache, r=recent: append_quantized(q, k, v, *c[:4], lengths, cos, sin, **r),
        )
        yield (
            f"decode_quantized, {bits} bits",
            lambda c=cache, r=recent: quantized.decode_quantized(q[:, 0], *c[:4], lengths, return_lse=True, **r),
        )
        yield (
            f"decode_quantized, {bits} bits, 4 queries",
            lambda c=cache, r=recent: quantized.decode_quantized(several, *c[:4], lengths, **r),
        )
        pages = quantized.quantized_cache(4, 64, 8, 128, bits, np.empty(0, np.float16), pages=256)
        of_pages = {"k_recent": pages.k_recent, "v_recent": pages.v_recent, "block_table": table[:, :64]}
        yield (
            f"append_quantized, pages of {bits} bits",
            lambda c=pages, r=of_pages: append_quantized(q, k, v, *c[:4], lengths, cos, sin, **r),
        )
        yield (
            f"decode_quantized, pages of {bits} bits",
            lambda c=pages, r=of_pages: quantized.decode_quantized(q[:, 0], *c[:4], lengths, **r),
        )

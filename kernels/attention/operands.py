"""Arrays of attention as kernels see them: heads of tokens, of any strides, and one head as blocks of its tokens."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import address, strides

# The copy engine requires strides that are multiples of this many bytes; specialisations record whether strides are
# multiples of this many elements.
PITCH = 16
# The end of the rows that the copy engine sees in concatenated sequences (`Head.corner`): no sequence is longer.
HORIZON: kl.constexpr = kl.constexpr(1 << 30)
# HORIZON times this many elements is a multiple of 2^64 bytes, for elements of one byte or more.
TURN = 1 << 34
MOST: kl.constexpr = kl.constexpr(0x7FFF0000)


@kiln.struct
class Head:
    """The tokens of one head of one sequence, ROWS at a time, as SIZE columns. ``first``: the row of the array that
    holds the first token (None: row 0). ``number``: the head's number among all heads of the array.

    With PACK, PACK heads from ``head`` on: ROWS / PACK tokens of the first, then as many of the second, ..."""

    array: Any
    blocks: Any
    number: Any
    batch: Any
    head: Any
    first: Any
    tokens: Any
    ROWS: kl.constexpr
    SIZE: kl.constexpr
    PACK: kl.constexpr = 1

    @kiln.jit
    def corner(self, row):
        """The coordinates of a block for the copy engine, which knows the end of the array but not that of the
        sequence.

        For concatenated sequences it sees a dimension of rows that ends at HORIZON, and starts the appropriate number
        of rows too far along it. Two more dimensions take that back: one by HORIZON · (TURN - stride) elements, which
        is -HORIZON · stride, as addresses are counted modulo 2^64; and one to the sequence's end.
        """
        if self.first is None:
            return [self.batch, self.head, row, 0]
        return [HORIZON, self.first + self.tokens, self.head, HORIZON - self.tokens + row, 0]

    @kiln.jit
    def elements(self, row):
        """Pointers to the elements of a block, and their mask."""
        x = self.array
        columns, head = kl.arange(0, self.SIZE)[None, :], self.head
        if self.PACK == 1:
            rows = (row + kl.arange(0, self.ROWS))[:, None]
        else:
            number = kl.arange(0, self.ROWS)[:, None]
            rows, head = row + number % (self.ROWS // self.PACK), head + number // (self.ROWS // self.PACK)
        if self.first is None:
            before = self.batch.to(kl.int64) * x.batch_stride
        else:
            before = self.first.to(kl.int64) * x.token_stride
        start = x.data + before + head * x.head_stride
        return start + rows * x.token_stride + columns * x.step, (rows < self.tokens) & (columns < x.size)

    @kiln.jit
    def load(self, row):
        """The tokens from ``row`` on, zero outside the sequence."""
        if self.array.step is None:
            return self.blocks.load(self.corner(row)).reshape(self.ROWS, self.SIZE)
        pointers, inside = self.elements(row)
        return kl.load(pointers, mask=inside, other=0.0)

    @kiln.jit
    def store(self, row, value):
        value = value.to(self.array.data.dtype.element_ty)
        if self.array.step is None:
            if self.first is None:
                value = value.reshape(1, self.PACK, self.ROWS // self.PACK, self.SIZE)
            else:
                value = value.reshape(1, 1, 1, self.ROWS, self.SIZE)
            corner = self.corner(row)
            if self.first is not None:
                # No sequence is longer than HORIZON, and no block that is stored begins before its array.
                kl.assume(corner[3] >= 0)
            self.blocks.store(corner, value)
        else:
            pointers, inside = self.elements(row)
            kl.store(pointers, value, mask=inside)


@kiln.struct
class Heads:
    """(batches, tokens, heads, size). A step of None is 1: rows that can be fetched as blocks lie along it; otherwise
    elements are addressed one by one. ``longest``: the most tokens of a sequence.

    With ``starts`` the array is (tokens, heads, size), and sequence i is its tokens from starts[i] to starts[i + 1];
    ``back`` is TURN - token_stride. CHECKED: programs stop if these lie outside the array."""

    data: Any
    batches: Any
    heads: Any
    tokens: Any
    size: Any
    batch_stride: Any
    head_stride: Any
    token_stride: Any
    step: Any
    longest: Any
    starts: Any = None
    back: Any = None
    CHECKED: kl.constexpr = False

    @kiln.jit
    def check(self, batch):
        first, end = kl.load(self.starts + batch), kl.load(self.starts + batch + 1)
        kl.device_assert(
            (0 <= first) & (first <= end) & (end <= self.tokens), "cu_seqlens: a sequence outside of the array"
        )
        kl.device_assert(end - first <= self.longest, "cu_seqlens: a sequence of more tokens than max_seqlen")

    @kiln.jit
    def blocks(self, ROWS: kl.constexpr, SIZE: kl.constexpr, PACK: kl.constexpr = 1):
        """The array as blocks of ROWS tokens of PACK heads, where its elements are contiguous; else None."""
        if self.step is not None:
            return None
        if self.starts is None:
            return kl.make_tensor_descriptor(
                self.data,
                [self.batches, self.heads, self.tokens, self.size],
                [self.batch_stride, self.head_stride, self.token_stride, 1],
                [1, PACK, ROWS, SIZE],
            )
        return kl.make_tensor_descriptor(
            self.data,
            [MOST, MOST, self.heads, HORIZON, self.size],
            [self.back, self.token_stride, self.head_stride, self.token_stride, 1],
            [1, 1, 1, ROWS, SIZE],
        )

    @kiln.jit
    def head(self, number, batch, head, ROWS: kl.constexpr, SIZE: kl.constexpr, PACK: kl.constexpr = 1):
        """One head of one sequence, or PACK heads from it on (not for concatenated sequences); ``number`` combines both
        indices."""
        blocks = self.blocks(ROWS // PACK, SIZE, PACK)
        if self.starts is None:
            return Head(self, blocks, number, batch, head, None, self.tokens, ROWS, SIZE, PACK)
        if self.CHECKED:
            self.check(batch)
        first = kl.load(self.starts + batch).to(kl.int32)
        tokens = kl.load(self.starts + batch + 1).to(kl.int32) - first
        return Head(self, blocks, head, None, head, first, tokens, ROWS, SIZE)


def heads_of(
    array: Any, described: bool = True, heads_first: bool = False, starts: Any = None, longest: int | None = None
) -> Heads:
    """``described``: as blocks, if its strides allow that. ``heads_first``: it is (batches, heads, tokens, size).
    ``starts``: it is (tokens, heads, size), with concatenated sequences of at most ``longest`` tokens."""
    shape, steps = tuple(array.shape), strides(array)
    if starts is not None:
        shape, steps = (starts.shape[0] - 1, *shape), (0, *steps)
    if heads_first:
        shape, steps = ((x[0], x[2], x[1], x[3]) for x in (shape, steps))
    batches, tokens, heads, size = shape
    longest = tokens if longest is None else longest
    checked = starts is not None and not machine_of(array).gpu
    if described and (steps[3] == 1 or size == 1):
        # With one batch, head or token the stride is free: use one that the copy engine can step by.
        free = -(-size // PITCH) * PITCH
        batch, token, head = (free if n == 1 else step for n, step in zip(shape[:3], steps[:3], strict=True))
        batch = free if starts is not None else batch
        if min(batch, token, head) > 0:
            back = None if starts is None else TURN - token
            return Heads(array, batches, heads, tokens, size, batch, head, token, None, longest, starts, back, checked)
    batch, token, head, step = steps
    return Heads(array, batches, heads, tokens, size, batch, head, token, step, longest, starts, None, checked)


def is_fetched(x: Heads) -> bool:
    """Whether the copy engine can step through the array and the compiler can see it: all steps are multiples of 16
    elements."""
    return x.step is None and not (
        address(x.data) % PITCH or x.batch_stride % PITCH or x.head_stride % PITCH or x.token_stride % PITCH
    )

"""Sums of dq in memory, where the kernel of dk and dv makes dq along with them: part by part, in turns or in any order.

A last kernel scales and rounds them.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.attention.operands import Heads


@kiln.struct
class Parts:
    """float32 sums of dq before they are scaled and rounded. Each block of M queries of a head is a matrix with queries
    as rows, or as columns (TURNED; `BackwardPlan.parts_turned` says when), and lies in memory as lines of LINE numbers:
    its own rows (LINE as long), or, where tensor cores make it, in the order in which they hold it (`in_lines`), so
    that a thread stores 16 bytes at a time. ``lines`` counts those of all blocks. ``turns``: for each block, how many
    blocks of keys have added to it, where they do so in order (None: in any order)."""

    data: Any
    turns: Any
    lines: Any
    padded: Any
    M: kl.constexpr
    SIZE: kl.constexpr
    TURNED: kl.constexpr
    LINE: kl.constexpr

    @kiln.jit
    def blocks(self):
        LINES: kl.constexpr = self.M * self.SIZE // self.LINE
        return kl.make_tensor_descriptor(self.data, [self.lines, self.LINE], [self.LINE, 1], [LINES, self.LINE])

    @kiln.jit
    def product(self, dscore, key):
        """dS k of a step, from dS transposed."""
        return kl.dot(key.T, dscore) if self.TURNED else kl.dot(dscore.T, key)

    @kiln.jit
    def in_lines(self, part):
        """A block as lines. A warp has 16 rows; of eight columns, a thread has two, in row r and in row r + 8."""
        ROWS: kl.constexpr = self.SIZE if self.TURNED else self.M
        COLUMNS: kl.constexpr = self.M if self.TURNED else self.SIZE
        if self.LINE == COLUMNS:
            return part
        part = part.reshape(ROWS // 16, 2, 8, COLUMNS // 8, 4, 2).permute(0, 3, 2, 4, 1, 5)
        return part.reshape(self.M * self.SIZE // self.LINE, self.LINE)

    @kiln.jit
    def clear(self, number, first, ROWS: kl.constexpr):
        """Zeros for the rows from ``first`` on."""
        token = first + kl.arange(0, ROWS)
        row = number.to(kl.int64) * self.padded + token
        columns = kl.arange(0, self.SIZE)[None, :]
        zeros = kl.zeros((ROWS, self.SIZE), kl.float32)
        kl.store(self.data + row[:, None] * self.SIZE + columns, zeros, mask=token[:, None] < self.padded)
        if self.turns is not None:
            begins = (token % self.M == 0) & (token < self.padded)
            kl.store(self.turns + row // self.M, kl.zeros((ROWS,), kl.int32), mask=begins)

    @kiln.jit
    def add(self, blocks, number, start, part, turn):
        """Adds the part of a block of keys, after those of the ``turn`` blocks before it if in turns."""
        LINES: kl.constexpr = self.M * self.SIZE // self.LINE
        block, lines = (number * self.padded + start) // self.M, self.in_lines(part)
        if self.turns is not None:
            while kl.atomic_add(self.turns + block, 0, sem="acquire") != turn:
                pass
        blocks.atomic_add([block * LINES, 0], lines)
        if self.turns is not None:
            kl.atomic_xchg(self.turns + block, turn + 1, sem="release")

    @kiln.jit
    def load(self, number, first):
        """The sums of a block, queries as rows."""
        ROWS: kl.constexpr = self.SIZE if self.TURNED else self.M
        COLUMNS: kl.constexpr = self.M if self.TURNED else self.SIZE
        LINES: kl.constexpr = self.M * self.SIZE // self.LINE
        place = self.data + (number.to(kl.int64) * self.padded + first) * self.SIZE
        sums = kl.load(place + kl.arange(0, LINES)[:, None] * self.LINE + kl.arange(0, self.LINE)[None, :])
        if self.LINE != COLUMNS:
            sums = sums.reshape(ROWS // 16, COLUMNS // 8, 8, 4, 2, 2).permute(0, 4, 2, 1, 3, 5)
        sums = sums.reshape(ROWS, COLUMNS)
        return sums.T if self.TURNED else sums


@kiln.jit
def round_kernel(sums: Parts, dq: Heads, softmax_scale):
    """Scales the sums in memory, rounds them to dq's type and stores them in dq."""
    number = kl.program_id(1)
    first = kl.program_id(0) * sums.M
    value = sums.load(number, first) * softmax_scale
    dq.head(number, number // dq.heads, number % dq.heads, sums.M, sums.SIZE).store(first, value)

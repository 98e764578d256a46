"""Arrays as kernels see them: a pointer with its shape and strides as one argument, read and written by tiles.

A tile gives the elements that a program holds, and which of them exist; the plan makes it (`rows.py`, `flat.py`). The
compiler knows when a step is 1, and drops masks where the plan promises that every element exists.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.operator import rows_of, strides


@kiln.struct
class Tile:
    """The elements that a program holds: rows (None for a view of one row) and columns, with a mask for both and one
    for the columns alone."""

    row: Any
    columns: Any
    mask: Any
    column_mask: Any

    @kiln.jit
    def only_if(self, there):
        """The same elements; none if not ``there``."""
        return self._replace(mask=self.mask & there)

    @kiln.jit
    def only(self, value):
        """The values, with zeros in columns that do not exist."""
        return kl.where(self.column_mask, value, 0.0)


@kiln.jit
def promise(WHOLE: kl.constexpr, first, COUNT: kl.constexpr, size):
    """If WHOLE, promises that COUNT elements from ``first`` on are among the first ``size``. The compiler then drops
    the masks that say so (`kiln-drop-masks`)."""
    if WHOLE:
        kl.assume(size >= COUNT)
        kl.assume(first <= size - COUNT)


@kiln.struct
class Rows:
    """Rows of a matrix: element (i, j) is at data + i · stride + j · step. ``per_column``: 1 / columns."""

    data: Any
    rows: Any
    stride: Any
    step: Any
    columns: Any
    per_column: Any

    @property
    @kiln.jit
    def dtype(self):
        return self.data.dtype.element_ty

    @kiln.jit
    def row(self, index):
        """A view of one row, for tiles without rows."""
        return self._replace(data=self.data + index * self.stride)

    @kiln.jit
    def after(self, offset):
        """The same rows, each starting ``offset`` elements later."""
        return self._replace(data=self.data + offset)

    @kiln.jit
    def at(self, tile):
        """Pointers to the elements of a tile."""
        start = self.data if tile.row is None else self.data + tile.row * self.stride
        return start + tile.columns * self.step

    @kiln.jit
    def load(self, tile, other: kl.constexpr = 0.0):
        return kl.load(self.at(tile), mask=tile.mask, other=other)

    @kiln.jit
    def store(self, tile, value):
        """Writes a tile, rounded to the type of the elements."""
        kl.store(self.at(tile), value.to(self.data.dtype.element_ty), mask=tile.mask)

    @kiln.jit
    def mean(self, total):
        """The means of rows from their sums: a product with 1 / columns."""
        return total * self.per_column


def rows_view(array: Any, name: str = "x") -> Rows:
    """An array as rows of its last dimension (`rows_of`)."""
    rows, stride, step = rows_of(array, name)
    columns = array.shape[-1]
    return Rows(array, rows, stride, step, columns, 1.0 / columns if columns else 0.0)


def flat_view(array: Any, elements: int) -> Rows:
    """A contiguous array as one row. A dimension of one element may have any stride."""
    return Rows(array, 1, 0, 1, elements, 0.0)


@kiln.struct
class Vector:
    """One row, such as weights, that is combined with every row: element j is at data + j · step."""

    data: Any
    step: Any

    @kiln.jit
    def load(self, tile):
        return kl.load(self.data + tile.columns * self.step, mask=tile.column_mask, other=0.0)


def vector_view(array: Any) -> Vector | None:
    """A one-dimensional array as a Vector; None for None."""
    return None if array is None else Vector(array, strides(array)[0])


@kiln.struct
class Heads:
    """Heads of tokens: element (b, t, h, i) is at data + b · batch + t · token + h · head + i · step."""

    data: Any
    batch: Any
    token: Any
    head: Any
    step: Any
    heads: Any

    @kiln.jit
    def at_token(self, batch, token):
        """The heads of one token. Advances one stride at a time: summing the products first could overflow in the
        narrow one."""
        return self._replace(data=self.data + batch * self.batch + token * self.token)


def heads_view(array: Any) -> Heads | None:
    """An array (batch, tokens, heads, size) as Heads; None for None."""
    return None if array is None else Heads(array, *strides(array), array.shape[2])

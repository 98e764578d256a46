"""Matrices and vectors as the kernels take them: arrays of any strides, whose type says what the strides allow.

A stride of None is a 1 that the kernel relies on: along it lie whole rows, which the copy engine can fetch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln.kernels.operator import address, strides

# The copy engine steps by multiples of this many bytes.
PITCH = 16


class Matrix(NamedTuple):
    """A matrix, or ``batches`` of them. A stride of None is 1; if there is none, elements are addressed one by one.
    ``batch_stride`` is None where there is one matrix for all batches."""

    data: Any
    batches: Any
    rows: Any
    columns: Any
    batch_stride: Any
    row_stride: Any
    column_stride: Any


class Along(NamedTuple):
    """``count`` vectors of ``length`` elements each, contiguous along K, ``stride`` elements apart."""

    data: Any
    stride: Any
    count: Any
    length: Any


class Vector(NamedTuple):
    data: Any
    length: Any
    stride: Any


class Terms(NamedTuple):
    """The other terms of the formula; None if absent. ``alpha`` and ``beta`` are None for 1."""

    alpha: Any = None
    row_scale: Any = None
    beta: Any = None
    c: Any = None
    bias: Any = None
    residual: Any = None


class Cut(NamedTuple):
    """How tiles are cut along K, and where their parts meet; None if each program has one tile, or one split of K.

    ``sums``     a tile for each part, part after part
    ``arrived``  as many counters: the number of parts that arrived, at the slot where a tile's parts begin. Zero
                 between launches
    ``whole``    this many tiles are not cut; all others together have ``steps`` steps, of which each worker gets
                 ``share``
    """

    sums: Any = None
    arrived: Any = None
    whole: Any = None
    share: Any = None
    steps: Any = None


def matrix(array: Any, described: bool = True) -> Matrix:
    """An array of rank 2 or 3, rows before columns. ``described``: as blocks, if its strides allow it."""
    *batches, rows, columns = array.shape
    *batch, row, column = strides(array)
    return view(array, batches[0] if batches else 1, rows, columns, batch[0] if batches else 0, row, column, described)


def view(
    data: Any, batches: int, rows: int, columns: int, batch: int, row: int, column: int, described: bool = True
) -> Matrix:
    """The matrix of these strides, in elements."""
    shared = None if batches == 1 or batch == 0 else batch
    if described and 0 not in (rows, columns) and (shared is None or shared > 0):
        # With one row or one column the other stride is free: use one that the copy engine can step by.
        unit = PITCH // min(PITCH, data.itemsize)
        pitch = -(-columns // unit) * unit if rows == 1 else row
        other = -(-rows // unit) * unit if columns == 1 else column
        along_columns = (column == 1 or columns == 1) and pitch > 0
        along_rows = (row == 1 or rows == 1) and other > 0
        if along_columns and not (along_rows and pitch % unit and other % unit == 0):
            return Matrix(data, batches, rows, columns, shared, pitch, None)
        if along_rows:
            return Matrix(data, batches, rows, columns, shared, None, other)
    return Matrix(data, batches, rows, columns, shared, row, column)


def vector(array: Any) -> Vector:
    return Vector(array, array.shape[0], strides(array)[0])


def addressed(x: Matrix) -> Matrix:
    """The same matrix, with its elements addressed one by one."""
    if x.row_stride is not None and x.column_stride is not None:
        return x
    row, column = 1 if x.row_stride is None else x.row_stride, 1 if x.column_stride is None else x.column_stride
    return Matrix(x.data, x.batches, x.rows, x.columns, x.batch_stride, row, column)


def addressed_terms(terms: Terms) -> Terms:
    if terms.c is None and terms.residual is None:
        return terms
    c, residual = (None if x is None else addressed(x) for x in (terms.c, terms.residual))
    return terms._replace(c=c, residual=residual)


def is_fetched(x: Matrix) -> bool:
    """Whether the copy engine can step through the matrix: from multiples of 16 bytes by multiples of 16 bytes."""
    if x.row_stride is not None and x.column_stride is not None:
        return False
    pitch = x.row_stride if x.column_stride is None else x.column_stride
    item = x.data.itemsize
    return not (pitch * item % PITCH or (x.batch_stride or 0) * item % PITCH or address(x.data) % PITCH)

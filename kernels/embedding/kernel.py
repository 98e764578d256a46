"""Embedding: copies one row of a table per token. An index outside the table stops the kernel."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import flat
from kiln.kernels.flat import FlatPlan
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import (
    FLOATS,
    FP8,
    SIGNED,
    UNSIGNED,
    Spec,
    Types,
    operator,
    output,
    rows_of,
    strides,
)
from kiln.kernels.views import Rows, Vector


@kiln.jit
def embedding_kernel(ids: Vector, table: Rows, y: Rows, PLAN: kl.constexpr):
    """y[i] = table[ids[i]]"""
    tile = PLAN.tile(y)
    row = kl.load(ids.data + tile.row * ids.step).to(kl.int64)
    kl.device_assert((row >= 0) & (row < table.rows), "embedding: index outside the table")
    value = kl.load(table.at(tile._replace(row=row)), mask=tile.mask)
    kl.store(y.at(tile), value, mask=tile.mask)


@operator(
    outputs=lambda ids, table, **_: (Spec((*ids.shape, table.shape[1]), table.dtype),),
    arrays={"ids": "(…)", "table": "(vocabulary, n)", "out": "(…, n)"},
    types=(
        Types(
            ids=("int32", "int64"),
            table=(*FLOATS, "float64", *FP8, *SIGNED, *UNSIGNED, "bool"),
            out="table",
            inside="the type of table",
            result="table",
        ),
    ),
    repeatable=True,
)
def embedding(ids: Any, table: Any, *, out: Any = None, plan: FlatPlan | None = None) -> Any:
    """``table[ids]``, exact copies of rows. A single stride must be able to walk the elements of ``ids``."""
    spec = Spec((*ids.shape, table.shape[1]), table.dtype)
    out = output(out, spec, table, "out", {"ids": ids, "table": table})
    if ids.ndim == 0:
        tokens, id_step, y_strides = 1, 1, (spec.shape[0], strides(out)[-1])
    else:
        rows, id_stride, id_step = rows_of(ids, "ids")
        tokens = rows * ids.shape[-1]
        if rows > 1 and id_stride != ids.shape[-1] * id_step:
            raise ArgumentError("ids", f"expected elements that one stride can walk, got strides {strides(ids)}")
        y_strides = rows_of(out, "out")[1:]
    n = table.shape[1]
    machine = machine_of(table)
    plan = plan or flat.plan(n, table.itemsize, machine, rows=max(tokens, 1), accesses=2)
    of_table, of_y = Rows(table, table.shape[0], *strides(table), n, 0.0), Rows(out, tokens, *y_strides, n, 0.0)
    embedding_kernel[plan.grid(tokens, n)](Vector(ids, id_step), of_table, of_y, **plan.meta(tokens, n, machine))
    return out

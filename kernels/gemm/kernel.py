"""Matrix product, one output tile per program; and split-K, for products with few output tiles and a long K.

Tiles are visited in groups of rows, so that neighbours share what they read. Split-K writes one partial product per
split and adds them in a second launch, always in the same order: the same bits every time, unlike atomics.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels import flat
from kiln.kernels.flat import block_place
from kiln.kernels.gemm.configs import launch, tiles
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import Spec, empty, operator, output, strides
from kiln.kernels.rows import read


@kiln.jit
def _tile_position(tile, tiles_m, tiles_n, GROUP: kl.constexpr):
    """Row and column of the tile: down a group of GROUP rows first, then right."""
    per_group = GROUP * tiles_n
    first = tile // per_group * GROUP
    rows = kl.minimum(tiles_m - first, GROUP)
    return first + tile % per_group % rows, tile % per_group // rows


@kiln.jit
def _accumulate(a, b, m, n, k_start, k_end, row, column, a_row, a_column, b_row, b_column,
                BLOCK_M: kl.constexpr, BLOCK_N: kl.constexpr, BLOCK_K: kl.constexpr):  # fmt: skip
    """The float32 tile of A[:, k_start:k_end] @ B[k_start:k_end, :]."""
    rows = row * BLOCK_M + kl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + kl.arange(0, BLOCK_N)
    total = kl.zeros((BLOCK_M, BLOCK_N), kl.float32)
    for start in range(k_start, k_end, BLOCK_K):
        inner = start + kl.arange(0, BLOCK_K)
        left = kl.load(a + rows[:, None] * a_row + inner[None, :] * a_column,
                       mask=(rows[:, None] < m) & (inner[None, :] < k_end), other=0.0)  # fmt: skip
        right = kl.load(b + inner[:, None] * b_row + columns[None, :] * b_column,
                        mask=(inner[:, None] < k_end) & (columns[None, :] < n), other=0.0)  # fmt: skip
        total = kl.dot(left, right, total)
    return total


@kiln.jit
def matmul_kernel(a, b, c, m, n, k, a_row, a_column, b_row, b_column, c_row, c_column,
                  BLOCK_M: kl.constexpr, BLOCK_N: kl.constexpr, BLOCK_K: kl.constexpr,
                  GROUP: kl.constexpr):  # fmt: skip
    row, column = _tile_position(kl.program_id(0), kl.cdiv(m, BLOCK_M), kl.cdiv(n, BLOCK_N), GROUP)
    total = _accumulate(a, b, m, n, 0, k, row, column, a_row, a_column, b_row, b_column, BLOCK_M, BLOCK_N, BLOCK_K)
    rows = row * BLOCK_M + kl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + kl.arange(0, BLOCK_N)
    kl.store(c + rows[:, None] * c_row + columns[None, :] * c_column, total.to(c.dtype.element_ty),
             mask=(rows[:, None] < m) & (columns[None, :] < n))  # fmt: skip


@kiln.jit
def split_k_kernel(a, b, partial, m, n, k, k_split, a_row, a_column, b_row, b_column,
                   BLOCK_M: kl.constexpr, BLOCK_N: kl.constexpr, BLOCK_K: kl.constexpr,
                   GROUP: kl.constexpr):  # fmt: skip
    row, column = _tile_position(kl.program_id(0), kl.cdiv(m, BLOCK_M), kl.cdiv(n, BLOCK_N), GROUP)
    split = kl.program_id(1)
    start = split * k_split
    total = _accumulate(a, b, m, n, start, kl.minimum(start + k_split, k), row, column, a_row, a_column, b_row,
                        b_column, BLOCK_M, BLOCK_N, BLOCK_K)  # fmt: skip
    rows = row * BLOCK_M + kl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + kl.arange(0, BLOCK_N)
    kl.store(partial + (split * m + rows[:, None]) * n + columns[None, :], total,
             mask=(rows[:, None] < m) & (columns[None, :] < n))  # fmt: skip


@kiln.jit
def add_splits_kernel(partial, c, m, n, splits, c_row, c_column, BLOCK: kl.constexpr, NUMBERING: kl.constexpr,
                      FULL: kl.constexpr):  # fmt: skip
    row, start, mask = block_place(n, BLOCK, NUMBERING, FULL)
    columns = start + kl.arange(0, BLOCK)
    total = kl.zeros((BLOCK,), kl.float32)
    for split in range(splits):
        total += read(partial + (split * m + row) * n + columns, mask)
    kl.store(c + row * c_row + columns * c_column, total.to(c.dtype.element_ty), mask=mask)


def _specs(a: Any, b: Any, *_: Any, **__: Any) -> tuple[Spec]:
    return (Spec((a.shape[0], b.shape[1]), a.dtype),)


def _check(a: Any, b: Any) -> tuple[int, int, int]:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(
            f"b: expected shape ({a.shape[-1]}, n) (because a has shape {tuple(a.shape)}), got {tuple(b.shape)}"
        )
    if a.dtype != b.dtype:
        raise ValueError(f"b: expected dtype {a.dtype} (the dtype of a), got {b.dtype}")
    return a.shape[0], b.shape[1], a.shape[1]


@operator(outputs=_specs)
def matmul(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a @ b`` for matrices of any strides: float32 accumulation, one rounding to ``out``'s type."""
    m, n, k = _check(a, b)
    out = output(out, _specs(a, b)[0], a)
    machine = machine_of(a)
    tile = tiles(m, n, k, machine)
    grid = (kiln.cdiv(m, tile["BLOCK_M"]) * kiln.cdiv(n, tile["BLOCK_N"]),)
    matmul_kernel[grid](a, b, out, m, n, k, *strides(a), *strides(b), *strides(out), **tile, **launch(tile, machine))
    return out


@operator(outputs=_specs)
def matmul_split_k(a: Any, b: Any, splits: int | None = None, *, out: Any = None) -> Any:
    """``a @ b`` with K cut into ``splits`` parts that run side by side (chosen from the shape when None)."""
    m, n, k = _check(a, b)
    out = output(out, _specs(a, b)[0], a)
    machine = machine_of(a)
    tile = tiles(m, n, k, machine)
    blocks = kiln.cdiv(k, tile["BLOCK_K"])
    if splits is None:
        splits = max(1, min(8, blocks // 4))
    if splits < 1:
        raise ValueError(f"splits: expected at least 1, got {splits}")
    k_split = max(1, kiln.cdiv(blocks, splits)) * tile["BLOCK_K"]
    splits = max(1, kiln.cdiv(k, k_split))
    partial = empty(Spec((splits, m, n), "float32"), a)
    grid = (kiln.cdiv(m, tile["BLOCK_M"]) * kiln.cdiv(n, tile["BLOCK_N"]), splits)
    split_k_kernel[grid](a, b, partial, m, n, k, k_split, *strides(a), *strides(b), **tile, **launch(tile, machine))
    plan = flat.plan(n, 4, machine, rows=max(m, 1), accesses=2, cpu_block=1024)
    add_splits_kernel[plan.grid(m, n)](partial, out, m, n, splits, *strides(out),
                                       **plan.meta(m, n, machine))  # fmt: skip
    return out

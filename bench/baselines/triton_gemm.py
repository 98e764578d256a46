"""Products as our own Triton kernels, for gemm.py to tune: a persistent one with tensor descriptors, and split-K."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.runtime._async_compile import AsyncCompileMode
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def finish(total, c, out, alpha, beta, row, column, ADD: tl.constexpr):
    value = total.to(tl.float32)
    if ADD:
        value = alpha * value + beta * c.load([row, column]).to(tl.float32)
    out.store([row, column], value.to(out.dtype))


@triton.jit(do_not_specialize=["M"])
def tile_kernel(a, b, c, out, alpha, beta, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                GROUP: tl.constexpr, PROGRAMS: tl.constexpr, HALVES: tl.constexpr, B_ROWS: tl.constexpr,
                ADD: tl.constexpr, HALF: tl.constexpr):  # fmt: skip
    """One tile after another: tile, tile + PROGRAMS, …; all operands through descriptors. HALVES: the result is stored
    in two pieces, which take half the shared memory."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    total_type: tl.constexpr = tl.float16 if HALF else tl.float32
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        first = tile // (GROUP * tiles_n) * GROUP
        rows = min(tiles_m - first, GROUP)
        row = (first + tile % (GROUP * tiles_n) % rows) * BM
        column = tile % (GROUP * tiles_n) // rows * BN
        total = tl.zeros((BM, BN), total_type)
        for k in range(0, tl.cdiv(K, BK)):
            left = a.load([row, k * BK])
            if B_ROWS:
                right = b.load([column, k * BK]).T
            else:
                right = b.load([k * BK, column])
            total = tl.dot(left, right, total, out_dtype=total_type)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
            finish(left, c, out, alpha, beta, row, column, ADD)
            finish(right, c, out, alpha, beta, row, column + BN // 2, ADD)
        else:
            finish(total, c, out, alpha, beta, row, column, ADD)


@triton.jit(do_not_specialize=["M"])
def split_kernel(a, b, out, partial, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 SPLITS: tl.constexpr, ATOMIC: tl.constexpr):  # fmt: skip
    """Few rows against weights (N, K); programs of one column block take every SPLITS-th step of K."""
    columns, split = tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(1)
    rows, inner = tl.arange(0, BM), split * BK + tl.arange(0, BK)
    left = a + rows[:, None] * K + inner[None, :]
    right = b + columns[None, :].to(tl.int64) * K + inner[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK * SPLITS)):
        x = tl.load(left, mask=rows[:, None] < M, other=0.0)
        w = tl.load(right, eviction_policy="evict_first")
        total = tl.dot(x, w, total)
        left += BK * SPLITS
        right += BK * SPLITS
    at = rows[:, None] * N + columns[None, :]
    if SPLITS == 1:
        tl.store(out + at, total.to(out.dtype.element_ty), mask=rows[:, None] < M)
    elif ATOMIC:
        tl.atomic_add(out + at, total.to(out.dtype.element_ty), mask=rows[:, None] < M, sem="relaxed")
    else:
        tl.store(partial + split * M * N + at, total, mask=rows[:, None] < M)


@triton.jit
def sum_kernel(partial, out, total, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.zeros((BLOCK,), tl.float32)
    for split in tl.static_range(SPLITS):
        value += tl.load(partial + split * total + at, mask=at < total, other=0.0)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < total)


@dataclass(frozen=True)
class Tile:
    m: int
    n: int
    k: int
    warps: int
    stages: int
    persistent: bool = True
    halves: bool = False


@dataclass(frozen=True)
class Split:
    m: int
    n: int
    k: int
    splits: int
    warps: int
    stages: int
    atomic: bool = False


def tiles(m: int, n: int, itemsize: int) -> Iterator[Tile]:
    """Configurations of `tile_kernel` worth timing: those that won among about two dozen, and their neighbours."""
    k = 128 // itemsize
    for each in (
        Tile(128, 256, k, 8, 3), Tile(128, 256, k, 8, 4, halves=True), Tile(128, 256, k, 8, 3, persistent=False),
        Tile(256, 128, k, 8, 3, halves=True), Tile(128, 128, k, 4, 4), Tile(128, 128, k, 8, 4, persistent=False),
        Tile(64, 128, k, 4, 4), Tile(64, 64, k, 4, 5),
    ):  # fmt: skip
        if each.m <= max(64, 2 * m) and each.n <= max(64, 2 * n) and (each.m > 64 or m <= 256):
            yield each


def splits(m: int, n: int, k: int) -> Iterator[Split]:
    """Configurations of `split_kernel` worth timing: whole steps only."""
    rows = max(16, triton.next_power_of_2(m))
    for (columns, step), parts, stages in itertools.product(((16, 256), (32, 256), (64, 128)), (1, 2, 4, 8), (3, 5)):
        programs = n // columns * parts
        if n % columns or k % (step * parts) or not 100 <= programs <= 2000:
            continue
        if (rows + columns) * step * 2 * stages > 220 << 10:
            continue
        yield Split(rows, columns, step, parts, 4, stages)
        if parts in (2, 4) and stages == 3:
            yield Split(rows, columns, step, parts, 4, stages, atomic=True)


# How to call a kernel's grid: either to run it, or only to compile it.
Start = Callable[[Any, tuple[int, ...]], Callable[..., Any]]


def started(kernel: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
    return kernel[grid]


def compiled(kernel: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
    return functools.partial(kernel.warmup, grid=grid)


def bind_tile(config: Tile, m: int, n: int, k: int, *, b_rows: bool, alpha: float, beta: float, half: bool,
              multiprocessors: int) -> Callable[..., None]:  # fmt: skip
    """A function of (a, b, c, out)."""
    count = triton.cdiv(m, config.m) * triton.cdiv(n, config.n)
    programs = min(multiprocessors, count) if config.persistent else count
    described: dict[tuple[int, ...], TensorDescriptor] = {}

    def block(array: Any, *sides: int) -> TensorDescriptor:
        key = (array.data_ptr(), *sides)
        if key not in described:
            described[key] = TensorDescriptor.from_tensor(array, list(sides))
        return described[key]

    def launch(a: Any, b: Any, c: Any, out: Any, start: Start = started) -> None:
        width = config.n // 2 if config.halves else config.n
        result = block(out, config.m, width)
        added = block(c, config.m, width) if beta else result
        weights = block(b, config.n, config.k) if b_rows else block(b, config.k, config.n)
        start(tile_kernel, (programs,))(
            block(a, config.m, config.k), weights, added, result, alpha, beta, m, n, k, config.m, config.n, config.k, 8,
            programs, config.halves, b_rows, bool(beta) or alpha != 1, half, num_warps=config.warps,
            num_stages=config.stages)  # fmt: skip

    return launch


def bind_split(config: Split, m: int, n: int, k: int, torch: Any) -> Callable[..., None]:
    partial = None
    if config.splits > 1 and not config.atomic:
        partial = torch.empty(config.splits * m * n, dtype=torch.float32, device="cuda")

    def launch(a: Any, b: Any, _: Any, out: Any, start: Start = started) -> None:
        if config.atomic and start is started:
            out.zero_()
        start(split_kernel, (n // config.n, config.splits))(
            a, b, out, out if partial is None else partial, m, n, k, config.m, config.n, config.k, config.splits,
            config.atomic, num_warps=config.warps, num_stages=config.stages)  # fmt: skip
        if partial is not None:
            start(sum_kernel, (triton.cdiv(m * n, 1024),))(partial, out, m * n, config.splits, 1024, num_warps=4)

    return launch


def compile_ahead(launches: Iterable[Callable[..., None]], a: Any, b: Any, c: Any, out: Any) -> None:
    """Compiles what the launches need, in parallel. Compile errors show up at launch."""
    threads = ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0))))
    with threads, AsyncCompileMode(threads, ignore_errors=True):
        for launch in launches:
            launch(a, b, c, out, compiled)

"""How a product is computed: a plan is one value, chosen from the shape by a model of the machine, with no tuning.

The model counts, for each plan that fits (`refusal`), the clocks of the tensor cores, of what the L2 delivers and of
memory, in whole waves of tiles over the multiprocessors (`microseconds`); the least wins. `candidates` are the best of
them by the model, for a tuner to time.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kiln.kernels.machine import DEFAULT_GPU, Machine, evict_policy, options

if TYPE_CHECKING:
    from kiln.kernels.case import Case


class Problem(NamedTuple):
    """What a plan depends on.

    ``streams``: both operands are contiguous along K, in types that CUDA cores multiply. ``pairs``: the epilogue takes
    columns in pairs. ``fetched``: the copy engine brings both operands in the form that tensor cores read.
    ``addends``: matrices of the result's size that are added.
    """

    m: int
    n: int
    k: int
    batches: int = 1
    dtype: str = "float16"
    out_bytes: int = 2
    accumulator: str = "f32"
    precision: str = "ieee"
    streams: bool = False
    pairs: bool = False
    fetched: bool = True
    addends: int = 0

    @property
    def itemsize(self) -> int:
        return _ITEMSIZE[self.dtype]


_ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}


@dataclass(frozen=True)
class Formula:
    """What of the product's meaning the kernel's code depends on: the accumulator's type (of ``kl``), the precision of
    float32 operands, and whether there are several products."""

    accumulator: Any
    precision: str
    batched: bool


@dataclass(frozen=True, repr=False)
class GemmPlan:
    """``m`` × ``n`` tiles in steps of ``k``, tiles taken in groups of ``group`` rows.

    schedule   who computes: "cooperative" (copies by a producer, products by ``consumers`` groups of four warps that
               share a tile's rows), "simple" (all warps copy and multiply), "fma" (no tensor cores), "gemv" (``m`` rows
               against streamed weights), "cpu"
    stages     slots of the ring that operands arrive in
    cluster    blocks that share a tile's rows, and fetch the other operand once for all
    splits     parts of K that are computed side by side and added in their order
    num_warps  of the schedules other than "cooperative"
    even       "gemv": no program has columns or steps to leave out; ``evict``: the eviction policy of its weights
    described  operands arrive in blocks that the copy engine can be told to fetch
    """

    m: int
    n: int
    k: int
    schedule: str = "cooperative"
    stages: int = 4
    consumers: int = 2
    cluster: int = 1
    splits: int = 1
    group: int = 8
    num_warps: int = 4
    even: bool = False
    evict: str = ""
    described: bool = True
    sum_n: int = 512

    def __repr__(self) -> str:
        """The tile, and what is not the default."""
        parts = [f"{getattr(self, f.name)!r}" if f.name in "mnk" else f"{f.name}={getattr(self, f.name)!r}"
                 for f in fields(self) if f.name in "mnk" or getattr(self, f.name) != f.default]  # fmt: skip
        return f"GemmPlan({', '.join(parts)})"

    @property
    def swap(self) -> bool:
        """Tiles of fewer rows than the instruction has: their columns take that side, the product is transposed."""
        return self.m // self.cluster < WARPGROUP_ROWS

    @property
    def rows(self) -> int:
        """Of the side that the warps of a block share out."""
        return (self.n if self.swap else self.m) // self.cluster

    @property
    def width(self) -> int:
        return self.m if self.swap else self.n

    def options(self, machine: Machine) -> dict[str, Any]:
        if not machine.gpu:
            return options()
        if self.schedule in ("fma", "gemv"):
            return options(num_warps=self.num_warps)
        cluster = {"cluster": self.cluster} if self.cluster > 1 else {}
        if self.schedule != "cooperative":
            return options(schedule=self.schedule, stages=self.stages, num_warps=self.num_warps, **cluster)
        return options(schedule=self.schedule, stages=self.stages, consumers=self.consumers, **cluster)

    def sum_options(self, machine: Machine) -> dict[str, Any]:
        """Of the launch that adds splits: four elements a thread."""
        return options(num_warps=max(1, self.sum_n // 128)) if machine.gpu else options()


# What the compiler gives to tensor cores, from shared memory and from registers: operands, with their accumulator or
# (float32) their precision. Everything else is multiplied by FMA, and so are batches: their blocks have rank 3.
FROM_SHARED = {("float16", "f32"), ("bfloat16", "f32")}
FROM_REGISTERS: set[tuple[str, str]] = set()

# ---- what fits -------------------------------------------------------------------------------------------------------
# One step of K is a swizzled row of shared memory.
ROW_BYTES = 128
WARPGROUP_ROWS = 64
# Accumulators a thread has room for, by the consumer groups that the producer leaves registers to.
ACCUMULATORS = {1: 208, 2: 192, 3: 112}
# What barriers, alignment and the compiler take of shared memory.
RESERVED_SHARED = 2048
# Of a cluster's blocks the driver keeps more to itself.
CLUSTER_RESERVED_SHARED = 8192


@functools.lru_cache(maxsize=64)
def _row(machine: Machine) -> tuple[frozenset[str], dict[str, int]]:
    from kiln import _kiln

    row = _kiln.target(machine.target)
    return frozenset(row["capabilities"]), row["limits"]


def engine(problem: Problem, machine: Machine) -> str:
    """What multiplies: "wgmma", "mma", "fma", or "cpu"."""
    if not machine.gpu:
        return "cpu"
    capabilities, _ = _row(machine)
    kind = (problem.dtype, problem.precision if problem.dtype == "float32" else problem.accumulator)
    # Operands that are not fetched pass through registers anyway, where they can be turned over on the way.
    if problem.fetched and problem.batches == 1 and "warpgroup_mma" in capabilities and kind in FROM_SHARED:
        return "wgmma"
    return "mma" if "warp_mma" in capabilities and kind in FROM_REGISTERS else "fma"


def step(problem: Problem) -> int:
    """Elements of K that fill a swizzled row."""
    return ROW_BYTES // problem.itemsize


def stage_bytes(plan: GemmPlan, problem: Problem) -> int:
    """Shared memory of one slot in one block: its share of the rows, and all of the other operand."""
    return (plan.rows + plan.width) * plan.k * problem.itemsize


def staged_output(plan: GemmPlan, problem: Problem) -> int:
    """Shared memory through which results leave: a block's part of the tile."""
    return plan.rows * plan.width * (4 if plan.splits > 1 else problem.out_bytes)


def exchanged(plan: GemmPlan, problem: Problem) -> int:
    """Shared memory through which addends (c, residual) come to the threads that hold the accumulators; beside pairs
    that were taken apart, in float32 and with what they are added to."""
    each = 8 if problem.pairs else max(2, problem.out_bytes)
    return problem.addends * plan.rows * plan.width * each if plan.splits == 1 else 0


def shared_bytes(plan: GemmPlan, problem: Problem) -> int:
    ring = plan.stages * stage_bytes(plan, problem)
    return ring + exchanged(plan, problem) + staged_output(plan, problem) + RESERVED_SHARED


def accumulators(plan: GemmPlan, problem: Problem) -> int:
    """Registers of a thread that hold its part of the tile."""
    threads = 128 * plan.consumers if plan.schedule == "cooperative" else 32 * plan.num_warps
    packed = problem.accumulator == "f16"
    return -(-plan.rows * plan.width // threads) // (2 if packed else 1)


def refusal(plan: GemmPlan, problem: Problem, machine: Machine) -> str:
    """Why a plan cannot run on a machine; "" if it can."""
    _, limits = _row(machine)
    if plan.schedule in ("fma", "gemv"):
        return ""
    if plan.cluster > machine.largest_cluster:
        return f"a cluster of {plan.cluster}, of {machine.largest_cluster}"
    if plan.rows % WARPGROUP_ROWS or plan.rows // WARPGROUP_ROWS % plan.consumers:
        return f"{plan.rows} rows for {plan.consumers} groups of {WARPGROUP_ROWS}"
    if plan.width % 8 or (plan.width > 256):
        return f"{plan.width} columns, of at most 256 in steps of 8"
    most = ACCUMULATORS[plan.consumers] - (32 if problem.pairs else 0)
    if (need := accumulators(plan, problem)) > min(most, 128):
        return f"{need} accumulators a thread, of {min(most, 128)}"
    spare = CLUSTER_RESERVED_SHARED if plan.cluster > 1 else 0
    if (need := shared_bytes(plan, problem)) > limits["max_shared_bytes"] - spare:
        return f"{need} bytes of shared memory, of {limits['max_shared_bytes'] - spare}"
    return ""


# ---- what it takes ---------------------------------------------------------------------------------------------------
# Clocks of an H100 or H200 under load: 1.755 GHz, so that memory's 4.3 TB/s are 2450 bytes a clock.
CLOCK_MHZ = 1755.0
MEMORY_BYTES = 2450.0
# What the L2 delivers to all multiprocessors, and to one: bytes a clock.
L2_BYTES, L2_BYTES_OF_ONE = 5200.0, 64.0
SHARED_BYTES = 128.0
# From asking to having, in memory under load.
LATENCY = 1300.0
# How much of memory's rate is lost with the last multiprocessors that have nothing to do.
IDLE = 0.3
# What crosses the chip takes power that products then lack: its share of the time it would take alone.
POWER = 0.15
# A launch with its first slots; the end of a tile; the second launch of a split product.
START, TILE_END, SUM = 2800.0, 700.0, 2600.0


def product_clocks(plan: GemmPlan, problem: Problem) -> float:
    """Of the tensor cores of one multiprocessor, for one step of a tile: 64 rows by 32 bytes of K take half a clock a
    column, or longer where shared memory cannot deliver both operands in that time."""
    each = max(plan.width / 2, (WARPGROUP_ROWS * 32 + plan.width * 32) / SHARED_BYTES)
    return plan.rows / WARPGROUP_ROWS * each * (plan.k * problem.itemsize / 32)


def microseconds(plan: GemmPlan, problem: Problem, machine: Machine) -> float:
    """What the model expects of a plan for tensor cores."""
    m, n, k, batches = problem.m, problem.n, problem.k, problem.batches
    tiles = -(-m // plan.m) * -(-n // plan.n) * batches * plan.splits
    slots = max(1, machine.processors // plan.cluster)
    waves = -(-tiles // slots)
    busy = min(tiles, slots) * plan.cluster
    steps = -(-k // (plan.k * plan.splits))
    fetched = (plan.rows + plan.width / plan.cluster) * plan.k * problem.itemsize
    fetching = fetched / min(L2_BYTES_OF_ONE, L2_BYTES / busy)
    one_step = max(product_clocks(plan, problem), fetching)
    partial = 4 if plan.splits > 1 else problem.out_bytes
    end = TILE_END + plan.rows * plan.width * (partial + 2 * problem.addends) / SHARED_BYTES * 4
    computing = waves * (steps * one_step + end)
    once = (m * k + k * n) * problem.itemsize * batches + m * n * batches * problem.out_bytes * (1 + problem.addends)
    # Memory is asked by busy multiprocessors alone, and evenly where the last wave is full.
    asked = (1 - IDLE) + IDLE * min(busy / machine.processors, tiles / (waves * slots))
    in_flight = busy * plan.stages * fetched
    reading = once / min(MEMORY_BYTES * asked, in_flight / LATENCY)
    clocks = max(computing, reading) + START
    if plan.splits > 1:
        clocks += SUM + (plan.splits + 1) * m * n * batches * 4 / L2_BYTES
    return (clocks + POWER * waves * steps * fetching) / CLOCK_MHZ


# ---- the choice ------------------------------------------------------------------------------------------------------
WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 208, 224, 256)
SPLITS = (1, 2, 3, 4, 6, 8)
MOST_STAGES = 8


def _stages(plan: GemmPlan, problem: Problem, machine: Machine) -> int:
    """The deepest ring that fits."""
    _, limits = _row(machine)
    cluster = CLUSTER_RESERVED_SHARED if plan.cluster > 1 else 0
    free = limits["max_shared_bytes"] - cluster - shared_bytes(replace(plan, stages=0), problem)
    return min(MOST_STAGES, max(0, free) // stage_bytes(plan, problem))


def _wgmma_plans(problem: Problem, machine: Machine) -> Iterator[GemmPlan]:
    unit = step(problem)
    splits = [s for s in SPLITS if s == 1 or (problem.k >= 4 * unit * s and problem.m * problem.n <= 1 << 22)]
    shapes: list[GemmPlan] = []
    for rows, consumers, cluster in ((64, 1, 1), (128, 2, 1), (192, 3, 1), (256, 2, 1), (128, 1, 1), (256, 2, 2)):
        for width in WIDTHS:
            if width <= max(2 * problem.n, WIDTHS[0]):
                shapes.append(GemmPlan(rows, width, unit, consumers=consumers, cluster=cluster))
    if problem.m < WARPGROUP_ROWS:
        # Weights on the side of 64 rows, the few rows on the other; a longer step where the ring would be many slots.
        width = min(WARPGROUP_ROWS - 8, -(-problem.m // 8) * 8)
        for rows, consumers, steps in itertools.product((64, 128), (1, 2), (1, 2)):
            shapes.append(GemmPlan(width, rows, steps * unit, consumers=consumers))
    for shape, parts in itertools.product(shapes, splits):
        plan = replace(shape, splits=parts)
        if parts > 1 and -(-problem.m // plan.m) * -(-problem.n // plan.n) * problem.batches >= machine.processors:
            continue
        plan = replace(plan, stages=_stages(plan, problem, machine))
        if plan.stages >= 3 and not (problem.pairs and plan.n % 16) and not refusal(plan, problem, machine):
            yield plan


@functools.lru_cache(maxsize=1024)
def ranked(problem: Problem, machine: Machine) -> tuple[GemmPlan, ...]:
    """Plans for tensor cores, the fastest by the model first."""
    return tuple(sorted(_wgmma_plans(problem, machine), key=lambda plan: microseconds(plan, problem, machine)))


def _mma_plan(problem: Problem, machine: Machine, splits: int) -> GemmPlan:
    """For tensor cores that each warp feeds from its own registers, copies by all warps."""
    m = 128 if problem.m > 64 else 64 if problem.m > 32 else 32 if problem.m > 16 else 16
    n = 128 if problem.n > 64 else 64
    while m * n > 4096 and -(-problem.m // m) * -(-problem.n // n) * problem.batches < machine.processors:
        m, n = (m // 2, n) if m >= n else (m, n // 2)
    warps = 8 if m * n >= 128 * 128 else 4
    plan = GemmPlan(m, n, step(problem) // 2, "simple", consumers=1, splits=splits, num_warps=warps)
    return replace(plan, stages=max(2, min(4, _stages(plan, problem, machine))))


# Rows of a that are multiplied by CUDA cores while their weights stream by.
STREAMED_ROWS = 4
# Weights that are so many times what the L2 holds are read with the priority that it keeps longest.
STREAM_L2S = 2.0


def gemv_plan(problem: Problem, machine: Machine, columns: int = 0, k: int = 0, warps: int = 4) -> GemmPlan:
    """A program streams some columns' weights, 64 bytes in flight a thread; more programs before more of that."""
    vector = 16 // problem.itemsize
    k = k or min(32 * warps * vector, max(32 * vector, 1 << (problem.k - 1).bit_length()))
    if not columns:
        columns = 4
        while columns > 2 and -(-problem.n // columns) < 6 * machine.processors:
            columns //= 2
    return GemmPlan(problem.m, columns, k, "gemv", num_warps=min(warps, max(1, k // (32 * vector))),
                    even=problem.n % columns == 0 and problem.k % k == 0, described=False,
                    evict=evict_policy(problem.n * problem.k * problem.itemsize, machine, STREAM_L2S))  # fmt: skip


def _fma_plan(problem: Problem, machine: Machine, splits: int) -> GemmPlan:
    """Square tiles, 32 accumulators a thread at most: a short step keeps both operands in registers too."""
    m = 64 if problem.m > 32 else 32 if problem.m > 16 else 16
    n = 64 if problem.n > 32 else 32 if problem.n > 16 else 16
    warps = max(1, min(8, m * n // 1024))
    return GemmPlan(m, n, 32, "fma", splits=splits, num_warps=warps, described=False)


def _cpu_plan(problem: Problem, splits: int) -> GemmPlan:
    """Square tiles that fit the first-level caches, narrow ones for few rows."""
    m = 64 if problem.m > 32 else 32 if problem.m > 16 else 16
    n = 64 if problem.n > 32 else 32 if problem.n > 16 else 16
    return GemmPlan(m, n, 32 if problem.k <= 32 else 64, "cpu", splits=splits, sum_n=1024, described=False)


def _splits(problem: Problem, tiles: int, k: int, machine: Machine) -> int:
    """Parts of K until the tiles cover the machine, each of at least eight steps."""
    if not machine.gpu or tiles * 2 > machine.processors:
        return 1
    return max(1, min(8, machine.processors // tiles, -(-problem.k // k) // 8))


@functools.lru_cache(maxsize=4096)
def plan(problem: Problem, machine: Machine, splits: int | None = None) -> GemmPlan:
    """The plan for a product on a machine; ``splits`` parts of K, where a number is given."""
    if splits is not None and splits < 1:
        raise ValueError(f"splits: expected at least 1, got {splits}")
    kind = engine(problem, machine)
    if kind == "cpu":
        return _cpu_plan(problem, splits or 1)
    if problem.streams and problem.m <= STREAMED_ROWS and problem.batches == 1 and splits in (None, 1):
        return gemv_plan(problem, machine)
    if kind == "wgmma":
        best = ranked(problem, machine)
        found = next((plan for plan in best if splits in (None, plan.splits)), None)
        return found or replace(best[0], splits=splits or 1)
    make: Callable[[Problem, Machine, int], GemmPlan] = _mma_plan if kind == "mma" else _fma_plan
    chosen = make(problem, machine, splits or 1)
    if splits is None:
        tiles = -(-problem.m // chosen.m) * -(-problem.n // chosen.n) * problem.batches
        chosen = replace(chosen, splits=_splits(problem, tiles, chosen.k, machine))
    return chosen


def candidates(m: int, n: int, k: int, dtype: str = "float16", machine: Machine = DEFAULT_GPU, count: int = 12,
               **about: Any) -> list[GemmPlan]:  # fmt: skip
    """Plans worth timing, the model's favourite first: the best of each tile, then further ones by the model.

    ``about``: other fields of ``Problem``.
    """
    problem = Problem(m, n, k, dtype=dtype, **about)
    found: list[GemmPlan] = []
    if m <= STREAMED_ROWS and problem.streams:
        for columns, warps in ((4, 4), (2, 4), (8, 4), (4, 8), (2, 8), (4, 2)):
            found.append(gemv_plan(problem, machine, columns, warps=warps))
    if engine(problem, machine) == "wgmma":
        best = ranked(problem, machine)
        order = list({(p.m, p.n): p for p in reversed(best)}.values())
        found += sorted(order, key=best.index)[: max(1, count - count // 3 - len(found))]
        found += [p for p in best if p not in found][: count - len(found)]
    return list(dict.fromkeys([plan(problem, machine), *found]))[:count]


# ---- what the demo and the checks of compiled code run ---------------------------------------------------------------
def __getattr__(name: str) -> list[Case]:
    if name == "CASES":
        return _cases()
    raise AttributeError(name)


def _cases() -> list[Case]:
    # kernel.py takes its plans from here, so its functions are named only when cases are asked for.
    import numpy as np
    from kiln.kernels.case import Case
    from kiln.kernels.gemm import kernel, reference

    def inputs(m, n, k):
        return lambda rng: {
            "a": rng.standard_normal((m, k), dtype=np.float32),
            "b": rng.standard_normal((k, n), dtype=np.float32),
        }

    def split(a, b, **given):
        return kernel.matmul(a, b, splits=4, **given)

    return [
        Case("matmul", "1024×1024×1024 float32", inputs(1024, 1024, 1024), kernel.matmul, reference.matmul,
             flops=2 << 30, length=1024),
        Case("matmul, 4 splits", "16×1024×8192 float32", inputs(16, 1024, 8192), split, reference.matmul,
             flops=2 * 16 * 1024 * 8192, length=8192),
    ]  # fmt: skip


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on arrays that hold nothing."""
    from kiln.kernels.case import blank
    from kiln.kernels.gemm import kernel

    for dtype in ("float32", "float16"):
        for m, n, k in ((1024, 1024, 1024), (16, 1024, 8192)):
            a, b = blank((m, k), dtype), blank((n, k), dtype).T
            name = f"{m}×{n}×{k} {dtype}"
            yield f"matmul {name}", lambda a=a, b=b: kernel.matmul(a, b)
            yield f"matmul {name}, splits", lambda a=a, b=b: kernel.matmul(a, b, splits=4)
    weights, bias = blank((28672, 4096), "float16"), blank((28672,), "float16")
    for m in (1, 4):
        x = blank((m, 4096), "float16")
        yield f"linear {m}×28672×4096 float16", lambda x=x: kernel.linear(x, weights)
    x, c = blank((256, 4096), "float16"), blank((256, 28672), "float16")
    yield "linear 256×28672×4096 float16, swiglu", lambda: kernel.linear(x, weights, bias, epilogue="swiglu")
    yield "matmul 256×28672×4096 float16, c", lambda: kernel.matmul(x, weights.T, alpha=2.0, beta=3.0, c=c)

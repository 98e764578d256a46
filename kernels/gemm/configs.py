"""How a product is computed: a plan is one value, chosen from the shape by a model of the machine, with no tuning.

For each plan that fits (`refusal`), the model counts the clocks of the tensor cores, of the L2 and of memory, in whole
waves of tiles over the multiprocessors (`microseconds`); the smallest wins. `candidates` are the best plans by the
model, for a tuner to time.

What fits, what it takes and the choice are three sections of one file: a change to how a tile is kept in shared memory
or in registers moves all three.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from kiln.errors import ArgumentError
from kiln.kernels.machine import DEFAULT_GPU, Machine, evict_policy, options


class Problem(NamedTuple):
    """What a plan depends on.

    ``streams``: both operands are contiguous along K, in types that CUDA cores multiply. ``pairs``: the epilogue takes
    columns in pairs. ``fetched``: the copy engine can bring both operands in the form that tensor cores read.
    ``addends``: the number of result-sized matrices that are added. ``loose``: how many of them threads load, since the
    copy engine cannot, or since the result overwrites them. ``replaced``: one that the copy engine fetches has the
    result's type, and the result takes its place in shared memory. ``scattered``: threads store the result, whose rows
    the copy engine cannot store. ``vectors``: bias and row_scale, if given. ``scaled``: row_scale is. ``overwritten``:
    an addend is the result's own memory. ``function``: the epilogue's demand on registers (`FUNCTIONS`).
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
    loose: int = 0
    replaced: bool = False
    vectors: int = 0
    function: int = 0
    scattered: bool = False
    scaled: bool = False
    overwritten: bool = False

    @property
    def itemsize(self) -> int:
        return _ITEMSIZE[self.dtype]

    @property
    def promoted(self) -> bool:
        """Tensor cores sum fp8 to about 14 bits: sums of PROMOTED elements are added in separate float32 registers."""
        return self.dtype.startswith("float8") and self.accumulator == "f32"


_ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}


@dataclass(frozen=True)
class Formula:
    """The properties of a product that the kernel's code depends on: the accumulator's type (of ``kl``), the precision
    of float32 operands, whether there are several products, and how many elements of K the tensor cores may sum before
    float32 takes over (None: all)."""

    accumulator: Any
    precision: str
    batched: bool
    promoted: int | None = None


# Rows of tiles in a group: neighbouring tiles share what they read. Products of 8 bits take half the time for the bytes
# that they read: with 16 rows, gate_up of 4096 rows takes 731 us, not 755, and qkv 159, not 161.
GROUP, GROUP_OF_8_BITS = 8, 16


@dataclass(frozen=True, repr=False)
class GemmPlan:
    """``m`` × ``n`` tiles in steps of ``k``, tiles in groups of ``group`` rows (0: there is one row of tiles).

    schedule   who computes: "cooperative" (copies by a producer, products by ``consumers`` groups of four warps that
               share a tile's rows), "pingpong" (two groups take turns, each with its own tile: while one writes its
               result the other multiplies), "simple" (all warps copy and multiply), "direct" (tensor cores multiply up
               to ``m`` rows by what threads read from memory, with no ring; a program's warps have parts of each step),
               "fma" (no tensor cores), "gemv" (``m`` rows against streamed weights, by CUDA cores), "cpu"
    stages     slots of the operands' ring
    cluster    blocks that share a tile's rows and fetch the other operand once for all; or that share its ``k``
    share      what a cluster's blocks share: the tile's "rows", or "k": each multiplies its part of every step (``k``
               counts all parts), and at the tile's end they add their sums through each other's shared memory
    splits     parts of K that are computed in parallel and added in order
    reduce     what adds them: a second "launch", or the program that finishes "last"
    workers    stream-K: this many programs share the steps of the last tiles equally, across tiles; the
               parts of a tile are added as with reduce="last". ``waves``: how many of the last waves of ``workers``
               tiles are shared (1: only the incomplete wave)
    skew       each tile's sum begins this many steps after that of the previous tile, and ends with the steps it
               skipped, so that blocks do not all read the same columns at once
    num_warps  for schedules without a producer
    even       "direct", "gemv": no program has columns or steps to mask
    fold       "direct": the parts of K that are multiplied side by side, as rows and columns of one product, so that
               a warp reads ``fold`` · 64 contiguous bytes of a row at once
    evict      the eviction policy of b, such as that of weights that are read once ("direct" has its own)
    described  operands arrive in blocks that the copy engine can fetch
    """

    m: int
    n: int
    k: int
    schedule: str = "cooperative"
    stages: int = 4
    consumers: int = 2
    cluster: int = 1
    share: str = "rows"
    splits: int = 1
    reduce: str = "launch"
    workers: int = 0
    waves: int = 2
    group: int = GROUP
    skew: int = 0
    num_warps: int = 4
    even: bool = False
    evict: str = ""
    described: bool = True
    sum_n: int = 512
    fold: int = 1

    def __repr__(self) -> str:
        """The tile, and all fields that are not the default."""
        parts = [
            f"{getattr(self, f.name)!r}" if f.name in "mnk" else f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name in "mnk" or getattr(self, f.name) != f.default
        ]
        return f"GemmPlan({', '.join(parts)})"

    @property
    def hands_in(self) -> bool:
        """Whether parts of a tile are added within the launch."""
        return self.workers > 0 or (self.splits > 1 and self.reduce == "last")

    @property
    def finishes(self) -> bool:
        """Whether its programs write results, not sums for a second launch."""
        return self.splits == 1 or self.hands_in

    @property
    def with_tensor_cores(self) -> bool:
        return self.with_roles or self.schedule == "simple"

    @property
    def with_roles(self) -> bool:
        """Whether a dedicated warp does the copies."""
        return self.schedule in ("cooperative", "pingpong")

    @property
    def sharers(self) -> int:
        """Groups that share a tile's rows."""
        return self.consumers if self.schedule == "cooperative" else 1

    @property
    def shares_k(self) -> bool:
        return self.cluster > 1 and self.share == "k"

    @property
    def row_sharers(self) -> int:
        """Blocks that share a tile's rows."""
        return 1 if self.shares_k else self.cluster

    @property
    def step(self) -> int:
        """Elements of K in one block's step."""
        return self.k // self.cluster if self.shares_k else self.k

    @property
    def depth(self) -> int:
        """Elements of K that one product sums."""
        return self.k // (self.num_warps * self.fold) if self.schedule == "direct" else self.k

    @property
    def put_across(self) -> bool:
        """Whether the tile is transposed: its rows are too few for the instruction's side of 64, so its columns go
        there."""
        return self.m // self.row_sharers < WARPGROUP_ROWS

    @property
    def rows(self) -> int:
        """A block's extent on the side where the instruction has 64."""
        return (self.n if self.put_across else self.m) // self.row_sharers

    @property
    def width(self) -> int:
        """A tile's extent on the instruction's other side."""
        return self.m if self.put_across else self.n

    def options(self, machine: Machine) -> dict[str, Any]:
        if not machine.gpu:
            return options()
        # The plan decides which operands come through descriptors.
        if self.schedule in ("fma", "gemv"):
            return options(num_warps=self.num_warps, describe_pointers=False)
        if self.schedule == "direct":
            return options(num_warps=self.num_warps, schedule="none", describe_pointers=False)
        chosen: dict[str, Any] = {"schedule": self.schedule, "stages": self.stages, "describe_pointers": False}
        if self.cluster > 1:
            chosen["cluster"] = self.cluster
        if self.shares_k:
            chosen["schedule"] = "split"
        if self.with_roles:
            return options(**chosen, consumers=self.consumers)
        return options(**chosen, num_warps=self.num_warps)

    def sum_options(self, machine: Machine) -> dict[str, Any]:
        """Options of the launch that adds splits: four elements per thread."""
        return options(num_warps=max(1, self.sum_n // 128)) if machine.gpu else options()


MOST_STEPS = 1 << 30


class Shares(NamedTuple):
    """The programs of a launch: ``plan`` (without workers where nothing is to be shared), the number of programs, and
    of slots for partial sums; for stream-K, how many tiles stay whole, a worker's share of the steps of all others, and
    the number of those steps."""

    plan: GemmPlan
    programs: int
    slots: int = 0
    whole: int | None = None
    share: int | None = None
    steps: int | None = None


def shares(plan: GemmPlan, tiles: int, k: int) -> Shares:
    """Divides the work of ``tiles`` tiles with sums over ``k`` (kernel.py: share_of)."""
    if plan.reduce not in ("launch", "last"):
        raise ArgumentError("plan", f"expected reduce of launch or last, got {plan}")
    if not plan.workers:
        return Shares(plan, tiles * plan.splits, tiles * plan.splits if plan.splits > 1 else 0)
    if plan.splits > 1 or plan.workers < 0 or plan.waves < 1:
        raise ArgumentError(
            "plan",
            f"expected workers and waves of at least 1, and splits of 1 (because workers share all of K), got {plan}",
        )
    of_tile = -(-k // plan.k)
    whole = max(0, tiles // plan.workers - (plan.waves - 1)) * plan.workers
    if tiles % plan.workers == 0 or of_tile == 0:  # no wave is ragged
        return Shares(replace(plan, workers=0), tiles)
    steps = (tiles - whole) * of_tile
    if steps >= MOST_STEPS:
        raise ArgumentError(
            "plan",
            "expected fewer than 2^30 steps to share (because they are counted in 32 bits past "
            f"the last share), got {steps} of waves={plan.waves}",
        )
    share = -(-steps // plan.workers)
    visits = 1 + -(-share // of_tile)
    return Shares(plan, whole + visits * plan.workers, plan.workers + tiles - whole, whole, share, steps)


# What the compiler gives to tensor cores, from shared memory and from registers: operand types, with their accumulator
# or (float32) their precision; int8 is always summed in int32. Everything else is multiplied by FMA.
FROM_SHARED = {
    ("float16", "f32"),
    ("bfloat16", "f32"),
    ("float16", "f16"),
    ("int8", "f32"),
    ("float32", "tf32"),
    *itertools.product(("float8_e4m3fn", "float8_e5m2"), ("f32", "fast", "f16")),
}
FROM_REGISTERS = {*FROM_SHARED, *(("float32", precision) for precision in ("tf32x3", "bf16x3", "bf16x6"))}

# Elements of K that fp8 tensor cores sum to 14 bits before float32 takes over, unless they keep the whole sum.
PROMOTED = 128

# ---- what fits -------------------------------------------------------------------------------------------------------
# One step of K is a swizzled row of shared memory.
ROW_BYTES = 128
WARPGROUP_ROWS = 64
# Accumulators that a thread has room for, by the number of consumer groups: what registers the producer leaves them.
ACCUMULATORS = {1: 208, 2: 192, 3: 112}
# The same where threads load one or two addends themselves, whose addresses and elements take registers too: the most
# that ptxas did not spill (in clusters 64 with both). With three of them and of vectors, three quarters of that.
LOOSE_ACCUMULATORS = {1: (64, 64), 2: (80, 48), 3: (40, 32)}
# Registers that epilogues take besides accumulators, in vectors (bias, row_scale). The pairs of swiglu are counted
# separately.
FUNCTIONS = {None: 0, "gelu": 1, "silu": 1, "gelu_tanh": 2, "swiglu": 0}
# Shared memory taken by barriers, alignment and the compiler.
RESERVED_SHARED = 2048
# The driver reserves more for itself in blocks of a cluster.
CLUSTER_RESERVED_SHARED = 1024


@functools.lru_cache(maxsize=64)
def _row(machine: Machine) -> tuple[frozenset[str], dict[str, int]]:
    from kiln import _kiln

    row = _kiln.target(machine.target)
    return frozenset(row["capabilities"]), row["limits"]


def engine(problem: Problem, machine: Machine) -> str:
    """The unit that multiplies: "wgmma", "mma", "fma", or "cpu"."""
    if not machine.gpu:
        return "cpu"
    capabilities, _ = _row(machine)
    kind = (problem.dtype, problem.precision if problem.dtype == "float32" else problem.accumulator)
    # Operands that are not fetched pass through registers anyway, and can be transposed there.
    if problem.fetched and "warpgroup_mma" in capabilities and kind in FROM_SHARED:
        return "wgmma"
    # Bytes that are strided along K cannot be fragments: nothing reads four of them at once.
    strided = problem.itemsize == 1 and not problem.fetched
    by_warps = "warp_mma" in capabilities and kind in FROM_REGISTERS and not strided
    return "mma" if by_warps else "fma"


def step(problem: Problem) -> int:
    """Elements of K that fill a swizzled row."""
    return ROW_BYTES // problem.itemsize


def stage_bytes(plan: GemmPlan, problem: Problem) -> int:
    """Shared memory of one slot in one block: its share of the rows and all of the other operand, or its part of the
    step of both."""
    return (plan.rows + plan.width) * plan.step * problem.itemsize


def exchanged_sums(plan: GemmPlan) -> int:
    """Shared memory in which a cluster's blocks exchange sums, for one tile and the next."""
    return 2 * (plan.rows * plan.width * 4 + 1024) if plan.shares_k else 0


def staged_output(plan: GemmPlan, problem: Problem) -> int:
    """Shared memory through which results leave: a block's part of the tile. Groups that take turns share it, unless
    threads store it."""
    taken = plan.rows * plan.width // (plan.cluster if plan.shares_k else 1)
    if plan.finishes and problem.scattered:  # as 32-bit elements, or in two tiles by turns; each group has its own
        return taken * max(4, 2 * problem.out_bytes) * (plan.consumers if plan.schedule == "pingpong" else 1)
    return taken * (problem.out_bytes if plan.finishes else 4)


def exchanged(plan: GemmPlan, problem: Problem) -> int:
    """Shared memory through which addends (c, residual) reach the threads that hold the accumulators; with the pairs of
    swiglu, in float32 and together with the value they are added to. In a transposed tile, threads must also exchange
    the halves of pairs."""
    if not plan.finishes:
        return 0
    each = 8 if problem.pairs else max(2, problem.out_bytes)
    taken = plan.rows * plan.width // (plan.cluster if plan.shares_k else 1)
    # One addend's memory is counted as the result's.
    reused = problem.replaced and plan.schedule == "cooperative" and not (plan.put_across or plan.shares_k)
    addends = problem.addends - int(reused)
    return max(addends, int(problem.pairs and plan.put_across)) * taken * each


def shared_bytes(plan: GemmPlan, problem: Problem) -> int:
    ring = plan.stages * stage_bytes(plan, problem)
    if plan.schedule == "simple":  # results leave through the ring's memory once it is done
        return max(ring, staged_output(plan, problem)) + RESERVED_SHARED
    beside = exchanged(plan, problem) + exchanged_sums(plan) + staged_output(plan, problem)
    return ring + beside + RESERVED_SHARED


def accumulators(plan: GemmPlan, problem: Problem) -> int:
    """Registers of a thread that hold its part of the tile."""
    threads = 128 * plan.sharers if plan.with_roles else 32 * plan.num_warps
    packed = problem.accumulator == "f16"
    return -(-plan.rows * plan.width // threads) * (2 if problem.promoted else 1) // (2 if packed else 1)


def _beside_terms(plan: GemmPlan, problem: Problem) -> int:
    """Accumulators that a thread has room for besides bias, row_scale and the epilogue: the most that ptxas did not
    spill, also with fetched addends."""
    beside = problem.vectors + problem.function
    if beside and problem.addends:
        return (64 if problem.addends == 1 else 56) if plan.consumers == 3 else 88
    if problem.vectors and beside >= 3:
        return (80 if beside == 3 else 72) if plan.consumers == 3 else 88
    if problem.pairs and problem.vectors and problem.accumulator == "f16":
        return 56
    if problem.function and plan.schedule == "pingpong":
        return 160
    if beside == 2:
        return min(176, ACCUMULATORS[plan.consumers])
    return ACCUMULATORS[plan.consumers]


def refusal(plan: GemmPlan, problem: Problem, machine: Machine) -> str:
    """Why a plan cannot run on a machine, or "" if it can."""
    _, limits = _row(machine)
    if plan.share not in ("rows", "k"):
        return f"blocks of a cluster that share {plan.share}, where there are rows and k"
    if plan.shares_k:
        if plan.schedule != "cooperative":
            return f"a cluster that shares k by {plan.schedule}, where it takes a producer and tiles of no turns"
        if plan.k % (plan.cluster * step(problem)):
            return f"steps of {plan.k} for {plan.cluster} blocks, of {step(problem)} each"
        part = plan.width // plan.cluster
        if plan.width % plan.cluster or part % 8 or part & (part - 1):
            return f"{plan.width} columns of sums for {plan.cluster} blocks, in eights, a power of two of them"
        if plan.rows & (plan.rows - 1):
            return f"{plan.rows} rows of sums, where blocks send each other a power of two of them"
        if problem.accumulator == "f16" or problem.pairs:
            return "sums of 16 bits, or pairs of columns, which blocks do not add to each other's"
    if plan.hands_in and plan.cluster > 1:
        return f"a cluster of {plan.cluster}, whose role has no barrier to count parts behind"
    if plan.schedule in ("fma", "gemv", "direct"):
        return ""
    if plan.cluster > 1 and problem.overwritten:
        return "a cluster whose blocks read what they overwrite, in no order"
    if plan.cluster > machine.largest_cluster:
        return f"a cluster of {plan.cluster}, of {machine.largest_cluster}"
    if plan.schedule == "simple":
        if plan.cluster > 1:
            return f"a cluster of {plan.cluster}, of which each block would copy the whole"
        if (need := shared_bytes(plan, problem)) > limits["max_shared_bytes"]:
            return f"{need} bytes of shared memory, of {limits['max_shared_bytes']}"
        if (need := plan.m * plan.n // (32 * plan.num_warps)) > 128:
            return f"{need} accumulators a thread, of 128"
        return ""
    if plan.rows % WARPGROUP_ROWS or plan.rows // WARPGROUP_ROWS % plan.sharers:
        return f"{plan.rows} rows for {plan.sharers} groups of {WARPGROUP_ROWS}"
    if plan.width % 8 or (plan.width > 256):
        return f"{plan.width} columns, of at most 256 in steps of 8"
    if plan.schedule == "pingpong" and problem.function:
        if problem.scaled or problem.accumulator == "f16" or problem.dtype in ("int8", "float32"):
            return f"a function of scaled rows, of {problem.dtype} or of sums of 16 bits, by turns: too few registers"
        if problem.out_bytes == 4:
            return "a function whose results have 32 bits, by turns: too few registers"
    if plan.schedule == "pingpong" and problem.pairs and problem.out_bytes == 4 and plan.n % 64:
        return f"{plan.n // 2} columns of 32 bits, which each group would exchange: too much shared memory"
    most = ACCUMULATORS[plan.consumers] - (32 if problem.pairs or problem.addends else 0)
    if plan.schedule == "cooperative":
        most = min(most, 200 if problem.promoted else 128)
    if plan.finishes:
        most = min(most, _beside_terms(plan, problem))
    if problem.loose and plan.finishes:
        loose = LOOSE_ACCUMULATORS[plan.consumers][problem.loose - 1]
        loose = loose if plan.cluster == 1 else max(loose, 64)
        most = min(most, loose * 3 // 4 if problem.vectors + problem.loose >= 3 else loose)
    if (need := accumulators(plan, problem)) > most:
        return f"{need} accumulators a thread, of {most}"
    spare = CLUSTER_RESERVED_SHARED if plan.cluster > 1 else 0
    if (need := shared_bytes(plan, problem)) > limits["max_shared_bytes"] - spare:
        return f"{need} bytes of shared memory, of {limits['max_shared_bytes'] - spare}"
    return ""


# ---- what it takes ---------------------------------------------------------------------------------------------------
# Clocks of an H200 at 1.755 GHz. The constants are fitted together to 199 timings (README.md), some up to bounds, so
# each also stands for effects that the model omits. Only TILE_END_ELEMENT was measured by itself.
CLOCK_MHZ = 1755.0
MEMORY_BYTES = 2400.0
# Bytes per clock that the L2 delivers, to all multiprocessors and to one.
L2_BYTES, L2_BYTES_OF_ONE = 9190.0, 80.0
SHARED_BYTES = 128.0
# From requesting a slot to the products that have read it: from memory, from the L2.
LATENCY, L2_LATENCY = 1740.0, 1420.0
# A slot waits for the L2's rate and for its latency, a little longer where both take equally long: a norm of their
# times.
QUEUE = 6.0
# Products on all multiprocessors at once take this much longer than their instructions do, because of the clock.
HEAT = 0.348
# From this many rows on, in types of 16 and 8 bits, the chip is at its power limit, and time is energy: the clock falls
# with the share of the time in which products run, with what they read from shared memory (in addition, relative to 64
# rows by 256 columns), and more where groups take turns. A step in a cluster takes some clocks more. Fitted to 130
# timings of 16-bit products in a steady state, after 120 ms of the same product; the errors are 1.6 % (root of the mean
# square, tiles of up to 4 waves excepted), and 1.6 % in 52 timings of 8-bit products, too, to which nothing was fitted.
SETTLED_ROWS = 1024
SETTLED_HEAT, SHARED_HEAT, TURN_HEAT, CLUSTER_STEP = 0.325, 0.3, 0.031, 16.0
# Traffic across the chip slows them too: this share of the time it would take alone.
POWER = 0.063
# Products and memory delay each other where both are busy: a norm of their times.
OVERLAP = 4.0
# A launch with its first latency and its last stores; the end of a tile; and storing one element, which tensor cores
# wait for unless another group has its turn.
START, TILE_END, TILE_END_ELEMENT = 4600.0, 100.0, 0.06
# From the last product to adding its sum, unless waiting for memory hides it (up to FEW_ROWS rows).
PROMOTION = 300.0
# The blocks of a cluster start and end together.
CLUSTER_START = 550.0
# An addend, which arrived while the tile was multiplied.
ADDEND = 300.0
# From a block's sums to those of the cluster, and for each of them: by o and down of 16 to 64 rows by pairs of blocks.
EXCHANGE, EXCHANGE_ELEMENT = 1700.0, 0.25
# The launch that adds splits, and the bytes per clock at which partial products are written and read.
SUM, SUM_BYTES = 2145.0, 1665.0


def product_clocks(plan: GemmPlan, problem: Problem) -> float:
    """Clocks of one multiprocessor's tensor cores for one step of a tile: 64 rows by 32 bytes of K take half a clock
    per column, or longer where shared memory cannot deliver both operands in that time."""
    each = max(plan.width / 2, (WARPGROUP_ROWS * 32 + plan.width * 32) / SHARED_BYTES)
    return plan.rows / WARPGROUP_ROWS * each * (plan.step * problem.itemsize / 32)


def is_settled(problem: Problem) -> bool:
    if problem.promoted or (problem.pairs and problem.addends):  # not timed
        return False
    return problem.m >= SETTLED_ROWS and problem.itemsize <= 2


def heat(plan: GemmPlan, problem: Problem, ends: float) -> float:
    """How much longer products take because of the clock, where they run on all multiprocessors. ``ends``: the clocks
    of a tile's end, for one of its products' clocks."""
    if not is_settled(problem):
        return HEAT
    shared = (WARPGROUP_ROWS + plan.width) / plan.width / (1 + WARPGROUP_ROWS / 256) - 1
    turns = TURN_HEAT if plan.schedule == "pingpong" else 0.0
    return (SETTLED_HEAT + SHARED_HEAT * shared + turns) / (1 + ends)


def promoting_clocks(plan: GemmPlan, problem: Problem) -> float:
    """From one group's products to its next ones, where it adds the sums in between: 128 additions per clock, and a
    wait. Work that other groups multiply meanwhile hides it."""
    if not problem.promoted:
        return 0.0
    waiting = PROMOTION if problem.m > FEW_ROWS else 0.0
    adding = plan.step / PROMOTED * (plan.rows * plan.width / 128 + waiting)
    return product_clocks(plan, problem) / plan.sharers + adding


def tile_end_clocks(plan: GemmPlan, problem: Problem) -> float:
    """From the last product of a tile to the first of the next."""
    if plan.schedule == "pingpong":
        return TILE_END
    addends = problem.addends if plan.finishes else 0  # partial products have none
    return TILE_END + plan.rows * plan.width * TILE_END_ELEMENT + addends * ADDEND


def tile_count(plan: GemmPlan, problem: Problem) -> int:
    return -(-problem.m // plan.m) * -(-problem.n // plan.n) * problem.batches


def handing_in_clocks(plan: GemmPlan, parts: float) -> float:
    """Clocks of the last program: its part is written, counted, and read back with the others, one after the other.
    Derived from the L2's latency and one multiprocessor's share of it, not measured."""
    return 3 * L2_LATENCY + (1 + parts) * 4 * plan.rows * plan.width / L2_BYTES_OF_ONE


def adding_clocks(plan: GemmPlan) -> float:
    """Clocks of a cluster whose blocks share k: each sends its sums and waits for those of the others."""
    return EXCHANGE + plan.rows * plan.width * EXCHANGE_ELEMENT if plan.shares_k else 0.0


def microseconds(plan: GemmPlan, problem: Problem, machine: Machine) -> float:
    """The time that the model predicts for a plan with tensor cores."""
    m, n, k, batches = problem.m, problem.n, problem.k, problem.batches
    tiles = tile_count(plan, problem) * plan.splits
    slots = max(1, machine.processors // plan.cluster)
    waves = -(-tiles // slots)
    busy = min(tiles, slots) * plan.cluster
    steps = -(-k // (plan.k * plan.splits))
    # What one block works through: steps, and tiles with their ends.
    done, ends = waves * steps, float(waves)
    if (shared := shares(plan, tiles // plan.splits, k)).plan.workers:
        rounds = plan.workers / slots
        done = math.ceil((shared.whole // plan.workers * steps + shared.share) * rounds)
        ends = math.ceil((shared.whole // plan.workers + shared.share / steps + 1) * rounds)
        busy = min(plan.workers, slots) * plan.cluster
    # The share of the products that the chip could do in these waves which the problem asks for.
    products = m * n * k * batches / (done * plan.rows * plan.width * plan.step * machine.processors)
    fetched = (plan.rows + plan.width / plan.row_sharers) * plan.step * problem.itemsize
    fetching = fetched / min(L2_BYTES_OF_ONE, L2_BYTES / busy)
    # Memory delivers each operand once; the L2 delivers it again.
    operands = (m * k + k * n) * problem.itemsize * batches
    first = min(1.0, operands / (tiles * plan.cluster * steps * fetched))
    latency = first * LATENCY + (1 - first) * L2_LATENCY
    arriving = (fetching**QUEUE + (latency / plan.stages) ** QUEUE) ** (1 / QUEUE)
    alone = product_clocks(plan, problem)
    ending = ends * (tile_end_clocks(plan, problem) + adding_clocks(plan))
    one_step = max(
        alone * (1 + heat(plan, problem, ending / (done * alone)) * products),
        promoting_clocks(plan, problem),
        arriving,
    )
    one_step += POWER * fetching
    if is_settled(problem) and plan.row_sharers > 1:
        one_step += CLUSTER_STEP
    # The last slot's products begin once its copy has ended.
    computing = (done + 1) * one_step + ending
    # Part of the multiprocessors is enough to keep memory busy.
    reading = (operands + m * n * batches * problem.out_bytes * (1 + problem.addends)) / MEMORY_BYTES
    clocks = START + (computing**OVERLAP + reading**OVERLAP) ** (1 / OVERLAP)
    if plan.cluster > 1:
        clocks += CLUSTER_START
    if shared.plan.workers:  # at least two parts, the last of which ends a share
        clocks += handing_in_clocks(plan, max(2.0, 1 + steps / shared.share))
    elif shared.plan.hands_in:
        clocks += handing_in_clocks(plan, plan.splits)
    elif plan.splits > 1:
        clocks += SUM + (2 * plan.splits * 4 + problem.out_bytes) * m * n * batches / SUM_BYTES
    return clocks / CLOCK_MHZ


# ---- the choice ------------------------------------------------------------------------------------------------------
WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 208, 224, 256)
# The same for groups that take turns. 144 and 192 columns were slower than those around them in six of seven products.
TURN_WIDTHS = (128, 160, 176)
SPLITS = (1, 2, 3, 4, 6, 8)
MOST_STAGES = 8
# Up to this many rows, tiles are transposed and groups do not take turns.
FEW_ROWS = 64
# Up to this many rows, longer steps are worth their memory: a slot is a longer request.
LONG_STEP_ROWS = 128
# Up to this many rows, the tiles that share columns of b run at the same time: memory is the limit, and what b brings
# leaves the L2 first.
READ_ONCE_ROWS = 256


# Bytes that all blocks together request ahead where tiles of few rows wait for memory. More slows memory down.
AHEAD = 8 << 20


def _stages(plan: GemmPlan, problem: Problem, machine: Machine) -> int:
    """The deepest ring that fits; for few rows, one that requests as much ahead as memory needs."""
    _, limits = _row(machine)
    cluster = CLUSTER_RESERVED_SHARED if plan.cluster > 1 else 0
    free = limits["max_shared_bytes"] - cluster - shared_bytes(replace(plan, stages=0), problem)
    slot = stage_bytes(plan, problem)
    fitting = min(MOST_STAGES, max(0, free) // slot)
    if plan.m >= WARPGROUP_ROWS or plan.row_sharers > 1:
        return fitting
    blocks = tile_count(plan, problem) * plan.splits * plan.cluster
    # One slot is being read.
    enough = 1 - -AHEAD // (slot * min(blocks, machine.processors))
    if blocks > machine.processors:  # two blocks per multiprocessor would request twice as much
        enough = max(enough, limits["shared_bytes_per_processor"] // 2 // slot + 1)
    return min(fitting, max(4, enough))


def _wgmma_plans(problem: Problem, machine: Machine) -> Iterator[GemmPlan]:
    unit = step(problem)
    splits = [s for s in SPLITS if s == 1 or (problem.k >= 4 * unit * s and problem.m * problem.n <= 1 << 22)]
    shapes: list[GemmPlan] = []
    for rows, consumers, cluster in ((64, 1, 1), (128, 2, 1), (192, 3, 1), (256, 2, 1), (128, 1, 1), (256, 2, 2)):
        for width in WIDTHS:
            # With C, 4096³ took 1.3 times as long in tiles of 176 columns as in tiles of 128; in tiles of 160 and 224
            # columns, 8192³ took 13 and 4 % longer than in tiles of 256. With two addends, one group took 4096³ 13 %
            # longer (tiles of 64x256) than two (128x128): nothing multiplies while it adds.
            slow = problem.addends and width > 32 and width % 32
            if problem.addends and is_settled(problem) and width > 128:
                slow = width % 64 or consumers == 1
            if width <= max(2 * problem.n, WIDTHS[0]) and not slow:
                shapes.append(GemmPlan(rows, width, unit, consumers=consumers, cluster=cluster))
    if problem.m > FEW_ROWS and not problem.addends:  # with C, 4096³ took 1.3 times as long by turns
        shapes += [
            GemmPlan(128 * cluster, width, unit, schedule="pingpong", cluster=cluster)
            for cluster in (1, 2)
            for width in TURN_WIDTHS
        ]
    if problem.m < WARPGROUP_ROWS:
        # Weights on the side of 64 rows, the few rows on the other; a longer step where the ring would have many slots.
        width = min(WARPGROUP_ROWS - 8, -(-problem.m // 8) * 8)
        for rows, consumers in ((64, 1), (128, 1), (128, 2), (256, 1)):
            # Blocks that read different columns of their rows are up to 5 % faster; 8-bit types have not been measured.
            skew = int(problem.itemsize == 2)
            shapes.append(GemmPlan(width, rows, unit, consumers=consumers, skew=skew))
    if problem.m <= LONG_STEP_ROWS:
        shapes += [replace(shape, k=2 * unit) for shape in shapes]
    if problem.m <= FEW_ROWS and problem.itemsize == 2:
        # Few tiles, long sums: two blocks share each. For 8 bits, two were slower than one.
        rows = -(-problem.m // 8) * 8
        shapes.append(GemmPlan(rows, WARPGROUP_ROWS, 4 * unit, consumers=1, cluster=2, share="k"))
    evict = "evict_first" if problem.m <= READ_ONCE_ROWS else ""
    group = GROUP_OF_8_BITS if problem.itemsize == 1 else GROUP
    for shape, parts in itertools.product(shapes, splits):
        # Blocks of a cluster wait for each other at each sum that is added: 7 to 10 % at 4096 rows.
        if (shape.shares_k and parts > 1) or (problem.promoted and shape.cluster > 1):
            continue
        plan = replace(shape, splits=parts, skew=shape.skew if parts == 1 else 0, evict=evict, group=group)
        if parts > 1 and -(-problem.m // plan.m) * -(-problem.n // plan.n) * problem.batches >= machine.processors:
            continue
        plan = replace(plan, stages=_stages(plan, problem, machine))
        least = 3 if problem.m > READ_ONCE_ROWS else 4
        if plan.stages >= least and not (problem.pairs and plan.n % 16) and not refusal(plan, problem, machine):
            yield plan


@functools.lru_cache(maxsize=1024)
def ranked(problem: Problem, machine: Machine) -> tuple[GemmPlan, ...]:
    """Plans for tensor cores, the fastest by the model first."""
    found = (in_rows(plan, problem) for plan in _wgmma_plans(problem, machine))
    return tuple(sorted(found, key=lambda plan: microseconds(plan, problem, machine)))


def in_rows(plan: GemmPlan, problem: Problem) -> GemmPlan:
    """The plan, with group 0 if there is one row of tiles: then the kernel divides by nothing (kernel.py: place)."""
    return replace(plan, group=0 if problem.m <= plan.m else plan.group or GROUP)


# Waves that are this full gain little from shares.
EVEN_WAVES = 0.97


def cut_plans(problem: Problem, machine: Machine) -> tuple[GemmPlan, ...]:
    """Plans whose parts of tiles are added within the launch, the fastest of each tile first: stream-K where the last
    wave of tiles is ragged, and splits. `plan` chooses none of them; a tuner may (README.md, *Shares*, has
    measurements)."""
    found: dict[tuple[int, int, int, bool], GemmPlan] = {}
    for base in ranked(problem, machine):
        if base.cluster > 1:
            continue
        if base.splits > 1:
            cut = replace(base, reduce="last", skew=0)
        else:
            tiles = tile_count(base, problem)
            waves = -(-tiles // machine.processors)
            if tiles > EVEN_WAVES * waves * machine.processors:
                continue
            cut = replace(base, workers=machine.processors, waves=min(2, waves), skew=0)
        cut = replace(cut, stages=_stages(cut, problem, machine))
        if cut.stages >= 3 and not refusal(cut, problem, machine):
            found.setdefault((cut.m, cut.n, cut.k, cut.workers > 0), cut)
    return tuple(sorted(found.values(), key=lambda plan: microseconds(plan, problem, machine)))


def _mma_plan(problem: Problem, machine: Machine, splits: int) -> GemmPlan:
    """For tensor cores that each warp feeds from its own registers; all warps copy.

    A warp has 64 × 64 of a large tile, whose operands it reads once from shared memory for 32 products; two blocks
    share a multiprocessor where their rings fit. Float32 is split in registers, which leaves room for half of that.
    """
    m = 128 if problem.m > 64 else 64 if problem.m > 32 else 32 if problem.m > 16 else 16
    n = 128 if problem.n > 64 else 64
    while m * n > 4096 and -(-problem.m // m) * -(-problem.n // n) * problem.batches < machine.processors:
        m, n = (m // 2, n) if m >= n else (m, n // 2)
    # Elements that are loaded one by one take registers for their addresses, as addends and functions do.
    crowded = problem.itemsize != 2 or problem.pairs or problem.addends
    crowded = crowded or (not problem.fetched and problem.vectors + problem.function > 0)
    warps = 8 if m * n >= 128 * 128 and crowded else 4
    # Few rows wait for memory: longer requests.
    k = step(problem) if m * n <= 64 * 64 else step(problem) // 2
    plan = GemmPlan(m, n, k, "simple", consumers=1, splits=splits, num_warps=warps)
    _, limits = _row(machine)
    half = limits["shared_bytes_per_processor"] // 2 - RESERVED_SHARED
    stages = half // stage_bytes(plan, problem)
    if stages < 3:
        stages = (limits["max_shared_bytes"] - RESERVED_SHARED) // stage_bytes(plan, problem)
    return replace(plan, stages=max(2, min(4, stages)))


# Most rows of a that tensor cores multiply while each thread reads its own weights. For 16 rows, x takes as many bytes
# from the L2 as the weights do: a ring is as fast.
DIRECT_ROWS = 8
# Most rows of a that CUDA cores multiply while the weights stream by, without and with tensor cores for the type.
STREAMED_ROWS, STREAMED_ROWS_BESIDE = 4, 2
# Weights this many times the size of the L2 are read with the priority that it keeps longest.
STREAM_L2S = 2.0


def is_direct(problem: Problem, kind: str) -> bool:
    """Whether tensor cores multiply few rows without a ring."""
    by_warps = kind in ("wgmma", "mma") and problem.streams and problem.itemsize == 2
    return by_warps and problem.m <= DIRECT_ROWS and problem.batches == 1


def is_streamed(problem: Problem, kind: str) -> bool:
    """Whether the few rows of a problem, which would otherwise get the engine ``kind``, are multiplied by threads that
    read the weights themselves."""
    most = STREAMED_ROWS_BESIDE if kind == "wgmma" else STREAMED_ROWS
    by_cores = kind != "cpu" and problem.streams and problem.m <= most and problem.batches == 1
    return by_cores or is_direct(problem, kind)


def streamed_plan(problem: Problem, machine: Machine, kind: str) -> GemmPlan:
    return direct_plan(problem, machine) if is_direct(problem, kind) else gemv_plan(problem, machine)


# Rows and columns of one product of a warp, made of ``fold`` parts of K.
DIRECT_SIDE = 16
# Rows times warps times pieces of a step. With twice as many, o of 8 rows took 11.3 µs instead of 9.7: x displaces x
# from the L1.
DIRECT_PIECES = 64
# Blocks of four warps that a multiprocessor runs at once.
DIRECT_BLOCKS = 7


def direct_plan(problem: Problem, machine: Machine, columns: int = 0, warps: int = 0) -> GemmPlan:
    """As many columns as rows: both sides of a product are full, and x takes as many bytes from the caches as the
    weights do from memory. With eight rows, that is much if all programs read x at the same time: then twice the
    columns. Eight warps where there are few programs. Steps are as long as they can be with all of K in pairs of
    them."""
    rows = max(2, 1 << (problem.m - 1).bit_length())
    fold = DIRECT_SIDE // rows
    if not columns:
        at_once = problem.n <= rows * DIRECT_BLOCKS * machine.processors
        columns = 2 * rows if rows == DIRECT_ROWS and at_once else rows
    piece = 64 // problem.itemsize * fold
    if not warps:
        warps = 4 if -(-problem.n // columns) > 2 * machine.processors else 8
    while warps > 1 and 2 * piece * warps > problem.k:
        warps //= 2
    pieces = max(1, DIRECT_PIECES // (rows * warps))
    while pieces > 1 and (2 * piece * warps * pieces > problem.k or problem.k % (2 * piece * warps * pieces)):
        pieces //= 2
    k = piece * warps * pieces
    even = problem.n % columns == 0 and problem.k % (2 * k) == 0
    return GemmPlan(rows, columns, k, "direct", num_warps=warps, fold=fold, even=even, described=False)


# Blocks of four warps that a multiprocessor runs at once, with two rows and four columns.
GEMV_BLOCKS = 10


def gemv_plan(problem: Problem, machine: Machine, columns: int = 0, k: int = 0, warps: int = 0) -> GemmPlan:
    """A program streams the weights of some columns. With one row, a column's bytes are done so soon that more warps
    with 32 bytes in flight per thread are faster than 64; more programs come before more of that."""
    vector = 16 // problem.itemsize
    if not warps:
        warps = 8 if problem.m == 1 and problem.k >= 256 * vector else 4
        columns = columns or (2 if warps == 8 else 0)
        # With several rows and more programs than run at once: smaller programs, whose last wave is shorter.
        if problem.m > 1 and -(-problem.n // 4) > GEMV_BLOCKS * machine.processors:
            warps = 2
    k = k or min(32 * warps * vector, max(32 * vector, 1 << (problem.k - 1).bit_length()))
    if not columns:
        columns = 4
        while columns > 2 and -(-problem.n // columns) < 6 * machine.processors:
            columns //= 2
    return GemmPlan(
        problem.m,
        columns,
        k,
        "gemv",
        num_warps=min(warps, max(1, k // (32 * vector))),
        even=problem.n % columns == 0 and problem.k % k == 0,
        described=False,
        evict=evict_policy(problem.n * problem.k * problem.itemsize, machine, STREAM_L2S),
    )


def _fma_plan(problem: Problem, machine: Machine, splits: int) -> GemmPlan:
    """Square tiles, at most 32 accumulators per thread: with a short step, both operands stay in registers too."""
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
    """The plan for a product on a machine, with ``splits`` parts of K if given. A measured plan (``tuned.py``) takes
    precedence over the model's."""
    if splits is not None and splits < 1:
        raise ArgumentError("splits", f"expected at least 1, got {splits}")
    if splits is None:
        from kiln.kernels.gemm import tuned

        measured = tuned.find(problem, machine)
        if measured is not None:  # from a nearby product with more or fewer rows
            return in_rows(measured, problem)
    return modelled(problem, machine, splits)


def modelled(problem: Problem, machine: Machine, splits: int | None = None) -> GemmPlan:
    """The plan that the model chooses, regardless of measurements."""
    kind = engine(problem, machine)
    if kind == "cpu":
        return _cpu_plan(problem, splits or 1)
    if splits in (None, 1) and is_streamed(problem, kind):
        return streamed_plan(problem, machine, kind)
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


def smaller(refused: GemmPlan, problem: Problem, machine: Machine, splits: int | None = None) -> GemmPlan | None:
    """The model's best plan whose threads hold fewer sums than a plan that turned out not to fit; None without one."""
    if not refused.with_roles:
        return None
    most = accumulators(refused, problem)
    fitting = (p for p in ranked(problem, machine) if accumulators(p, problem) < most)
    return next((p for p in fitting if splits in (None, p.splits)), None)


def candidates(
    m: int, n: int, k: int, dtype: str = "float16", machine: Machine = DEFAULT_GPU, count: int = 12, **about: Any
) -> list[GemmPlan]:
    """Plans worth timing, the model's favourite first: the best plan of each tile, then further ones in the model's
    order.

    ``about``: other fields of ``Problem``.
    """
    problem = Problem(m, n, k, dtype=dtype, **about)
    default = modelled(problem, machine)
    found: list[GemmPlan] = []
    if is_direct(problem, engine(problem, machine)):
        for columns, warps in ((default.n, 4), (default.n, 8), (2 * default.n, 4), (2 * default.n, 8)):
            found.append(direct_plan(problem, machine, columns, warps))
    if m <= STREAMED_ROWS and problem.streams:
        for columns, warps in ((2, 8), (4, 4), (2, 4), (4, 8), (4, 2)):
            found.append(gemv_plan(problem, machine, columns, warps=warps))
    if engine(problem, machine) == "wgmma":
        best = ranked(problem, machine)
        cuts = cut_plans(problem, machine)
        each = {(p.schedule, p.workers > 0): p for p in reversed(cuts)}  # the best of each kind
        cut = sorted(each.values(), key=cuts.index)[: count // 4]
        order = list({(p.m, p.n): p for p in reversed(best)}.values())
        found += sorted(order, key=best.index)[: max(1, count - count // 3 - len(cut) - len(found))]
        found = [default, *(p for p in found if p != default), *cut]
        if m <= FEW_ROWS:
            found.insert(1, replace(best[0], skew=int(not best[0].skew)))
        found += [p for p in best if p not in found][: count - len(found)]
    if default.schedule == "cpu":
        found += [
            replace(default, m=rows, n=columns, k=step)
            for rows, columns, step in itertools.product(
                (default.m, default.m // 2, 2 * default.m), (default.n, 2 * default.n), (default.k, 2 * default.k)
            )
            if rows >= 16
        ]
    return list(dict.fromkeys([default, *found]))[:count]

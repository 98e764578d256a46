"""How many threads hold a row, and how many rows a program holds: the launch policy of every kernel that reduces rows.

On a GPU a row lives in registers between its statistics and its use, so that memory is read once. A thread holds a few
16-byte accesses of it, all in flight before the first is used; long rows are spread over a cluster of blocks, short
ones share a block. On the CPU a program walks one row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import Machine, is_dependent, is_streaming, with_options
from kiln.kernels.operator import tile_side
from kiln.kernels.views import Tile
from kiln.kernels.views import read as read

# Bytes a thread asks for before it uses any: with 1024 threads on a multiprocessor 64 KB are in flight, twice what the
# memory's latency needs at full rate. Kernels whose rows wait for one exchange do better with half of it and more
# threads.
THREAD_BYTES = 64
VECTOR_BYTES = 16
BLOCK_THREADS = 128
# A block holds at most this many elements of a row (512 threads, 32 float32 registers each), so that two blocks share a
# multiprocessor and one loads while the other computes; the row's rest goes to more blocks of the cluster.
BLOCK_ELEMENTS = 16384
LARGEST_BLOCK_ELEMENTS = 32768
# A longer row of 16-bit elements waits for its statistics as it was loaded, 64 elements in 32 registers, so that 64
# registers a thread do, unless two vectors come on top. Blocks are small, for many of them to share a multiprocessor,
# each at another point of its work; twice as large where the cluster would be larger than every GPU with clusters has.
PACKED_ELEMENTS = 64
PACKED_THREADS = 128
PORTABLE_CLUSTER = 8
# A few long rows wait for latencies: they are spread over the largest portable cluster while its blocks are at most so
# many to a multiprocessor. (Softmax of 1×18944 3.24 instead of 3.93 µs, of 1×32768 3.37 instead of 4.36, of 44×18944
# 4.37 instead of 4.76; of 130×18944 8.1 instead of 6.2.)
FEW_ROWS_BLOCKS = 3
FEW_ROWS_ELEMENTS = 32
# Rows that are read once and are this many times what the L2 holds are read with the priority that it keeps longest.
# They then displace each other and not the lines on their way to memory, 1 to 4 % faster; smaller ones lose 1 %.
STREAM_L2S = 2.0
STREAM_THREADS = 256
# Of many rows that leave more of a block's threads idle than this, a block of several rows a multiprocessor is better.
MOST_IDLE = 1.1
SEVERAL_THREADS = 256


@dataclass(frozen=True)
class RowPlan:
    """A launch over rows: the tile ``rows × block`` and the threads that hold it.

    ``loop``: the row does not fit the registers; it is walked in blocks, and read again for its use. ``registers``:
    the most a thread may have (None: what the compiler wants). ``streaming``: the rows are several times what the
    L2 holds.
    """

    block: int
    rows: int = 1
    num_warps: int = 4
    cluster: int = 1
    loop: bool = False
    registers: int | None = None
    streaming: bool = False

    def grid(self, rows: int) -> tuple[int]:
        return (-(-rows // self.rows),)

    def meta(self, rows: int, n: int, machine: Machine) -> dict[str, Any]:
        """PLAN, the constexpr argument that the kernels share, and the launch options."""
        single = is_dependent() and self.grid(rows)[0] * self.cluster <= machine.processors
        return with_options(_meta(self, rows, n, machine.gpu, single))

    def options(self) -> dict[str, Any]:
        cluster = {"cluster": self.cluster} if self.cluster > 1 else {}
        registers = {"maxnreg": self.registers} if self.registers else {}
        streaming = {"streaming": True} if self.streaming else {}
        return {"num_warps": self.num_warps, **cluster, **registers, **streaming}


@functools.lru_cache(maxsize=4096)
def _meta(plan: RowPlan, rows: int, n: int, gpu: bool, single: bool) -> dict[str, Any]:
    full = n % plan.block == 0 if plan.loop else n == plan.block
    form = RowForm(plan.block, plan.rows, full, rows % plan.rows == 0)
    wave = {"single_wave": True} if single else {}
    return {"PLAN": form, **(plan.options() | wave if gpu else {})}


def plan(
    rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int = 0, thread_bytes: int = THREAD_BYTES
) -> RowPlan:
    """The plan for ``rows`` rows of ``n`` elements, read from ``streams`` arrays of ``itemsize`` bytes an element.

    ``vectors``: how many further arrays of one row, such as weights, every row is combined with. ``thread_bytes``: what
    a thread asks for where rows are many and fit a block.
    """
    return _gpu_plan(rows, n, itemsize, streams, machine, vectors, thread_bytes) if machine.gpu else _cpu_plan(n)


@functools.lru_cache(maxsize=4096)
def _cpu_plan(n: int) -> RowPlan:
    return RowPlan(tile_side(n))


def _is_few(rows: int, n: int, streams: int, machine: Machine, vectors: int) -> bool:
    """Whether rows are so few, long and alone that a large cluster finishes them soonest."""
    if streams > 1 or vectors or machine.largest_cluster < PORTABLE_CLUSTER:
        return False
    is_long = BLOCK_ELEMENTS < n <= PORTABLE_CLUSTER * BLOCK_ELEMENTS
    return is_long and rows * PORTABLE_CLUSTER <= FEW_ROWS_BLOCKS * machine.processors


def _cluster(rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int) -> tuple[int, bool] | None:
    """How many blocks share a row, and whether it waits packed; None if no cluster's registers hold it."""
    if n <= BLOCK_ELEMENTS:
        return 1, False
    if _is_few(rows, n, streams, machine, vectors):
        return PORTABLE_CLUSTER, False
    small = PACKED_THREADS * PACKED_ELEMENTS
    part = small if n <= PORTABLE_CLUSTER * small else 2 * small
    cluster = min(machine.largest_cluster, kiln.next_power_of_2(-(-n // part)))
    # Where packed rows would leave multiprocessors without a block, more threads finish them sooner.
    packed = itemsize == 2 and streams == 1 and vectors < 2 and rows * cluster >= 2 * machine.processors
    if not packed:
        cluster = min(machine.largest_cluster, kiln.next_power_of_2(-(-n // BLOCK_ELEMENTS)))
    # With 64 registers a thread, 32 of them for the row, there is no room for a weight and a bias.
    most = LARGEST_BLOCK_ELEMENTS if vectors < 2 else BLOCK_ELEMENTS * 3 // 2
    return (cluster, packed) if n <= cluster * most else None


def _elements(
    rows: int, n: int, part: int, itemsize: int, streams: int, machine: Machine, thread_bytes: int, streaming: bool
) -> int:
    """How many of the ``part`` elements of a row that its block has a thread holds, if the row does not wait packed."""
    vector = max(1, VECTOR_BYTES // itemsize)
    each = max(vector, thread_bytes // (itemsize * streams))
    if rows <= machine.processors:
        # Latency, not bandwidth: as many threads as the row keeps busy, in few enough warps to meet quickly.
        each = vector if n > 512 * vector or streams > 1 else 2 * vector
    elif rows <= 4 * machine.processors:
        each = max(vector, each // 2)
    if part > BLOCK_ELEMENTS:
        return max(each, 32)
    # Two arrays a row wait twice as long for their bytes: one access to each, by as many threads as there can be.
    threads = 512 if streams == 1 else 1024
    each = max(each, vector * -(-part // (threads * vector)))
    # Streams are faster with twice the bytes a thread than with larger blocks.
    return 2 * each if streaming and streams == 1 and each < 32 and part > STREAM_THREADS * each else each


def _block(n: int, threads: int, cluster: int, vector: int, least: int) -> int:
    """The tile of a row. Whole vectors on every thread of it; what is over is masked and costs no traffic. Smaller ones
    (of ``least`` elements) if nothing is over then: a row without masks is faster than one with the widest accesses."""
    spread = threads * cluster
    return n if least and tile_side(n, spread * least) == n else tile_side(n, spread * vector)


def _ragged(n: int, threads: int, cluster: int, most: int, streams: int, vectors: int) -> tuple[int, int]:
    """The threads of a block and the blocks of a cluster for many rows of 16-bit elements, most of whose threads should
    have something to do: 5120 elements on 512 threads of 16 leave a third of them idle, and 256 threads of 20 none.

    ``most``: blocks that a cluster may have. Two vectors of weights leave a thread of a large block room for 24 masked
    elements, and for 64 if none is masked or if four small blocks share the row and ask for weights late (LayerNorm of
    4096×18944 108 instead of 113 µs, of 4096×14000 81 instead of 98).
    """
    if vectors > 1 and n > 8192:
        for blocks in (1, 2)[:most]:
            if n <= blocks * SEVERAL_THREADS * 64 and _block(n, SEVERAL_THREADS, blocks, 8, 2) == n:
                return SEVERAL_THREADS, blocks
        if n <= 2 * SEVERAL_THREADS * 24:
            return 2 * SEVERAL_THREADS, 1
        return (PACKED_THREADS, 4) if most >= 4 and n <= 4 * PACKED_THREADS * 64 else (threads, cluster)
    # Alone in its registers, a row of that length does better with fewer threads that hold more of it (softmax of
    # 777×16384 15.0 instead of 16.8 µs, of 4096×16384 66.5 instead of 68.1, of 777×12288 11.9 instead of 12.5).
    if vectors == 0 and streams == 1 and 8192 < n <= SEVERAL_THREADS * 64:
        if _block(n, SEVERAL_THREADS, 1, 8, 4) <= 1.05 * n:
            return SEVERAL_THREADS, 1
    if vectors > 1 or n <= 4096 or _block(n, threads, cluster, 8, 4) <= MOST_IDLE * n:
        return threads, cluster
    blocks = kiln.next_power_of_2(-(-n // (SEVERAL_THREADS * (64 if streams == 1 else 48))))
    return (SEVERAL_THREADS, blocks) if blocks <= most else (threads, cluster)


@functools.lru_cache(maxsize=4096)
def _gpu_plan(
    rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int, thread_bytes: int
) -> RowPlan:
    spread = _cluster(rows, n, itemsize, streams, machine, vectors)
    if spread is None:
        return RowPlan(8192, num_warps=16, loop=True)
    cluster, packed = spread
    part = -(-n // cluster)
    streaming = is_streaming(rows * n * itemsize * streams, machine, STREAM_L2S)
    if packed:
        each = PACKED_ELEMENTS
    elif _is_few(rows, n, streams, machine, vectors):
        each = FEW_ROWS_ELEMENTS
    else:
        each = _elements(rows, n, part, itemsize, streams, machine, thread_bytes, streaming)
    threads = min(1024, kiln.next_power_of_2(-(-part // each)))
    vector = max(1, VECTOR_BYTES // itemsize)
    least = vector // 2
    if itemsize == 2 and not packed and rows > 4 * machine.processors:
        most = min(machine.largest_cluster, PORTABLE_CLUSTER)
        threads, cluster = _ragged(n, threads, cluster, most, streams, vectors)
        least = 2 if vectors > 1 and n > 8192 else least
    block = _block(n, threads, cluster, vector, least)
    if threads >= BLOCK_THREADS or cluster > 1:
        return RowPlan(block, 1, max(1, threads // 32), cluster, streaming=streaming)
    several = BLOCK_THREADS // threads
    while several > 1 and -(-rows // several) < 2 * machine.processors:
        several //= 2
    return RowPlan(block, max(1, several), max(1, several * threads // 32), 1, streaming=streaming)


# ---- the plan as kernels see it --------------------------------------------------------------------------------------
@kiln.struct
class RowForm:
    """How a program holds rows: ROWS of them, BLOCK columns each; PLAN of the kernels that reduce rows.

    FULL: the columns are all there, EVEN: the rows are.
    """

    BLOCK: kl.constexpr
    ROWS: kl.constexpr = 1
    FULL: kl.constexpr = False
    EVEN: kl.constexpr = True

    @kiln.jit
    def tile(self, x):
        """The rows of x that this program holds. One row is a vector, so that its statistics are scalars."""
        if self.ROWS == 1:
            row = kl.program_id(0)
            columns = kl.arange(0, self.BLOCK)
            mask = None if self.FULL else columns < x.columns
            return Tile(row, columns, mask, mask)
        row = (kl.program_id(0) * self.ROWS + kl.arange(0, self.ROWS))[:, None]
        columns = kl.arange(0, self.BLOCK)[None, :]
        column_mask = None if self.FULL else columns < x.columns
        if self.EVEN:
            mask = column_mask
        elif self.FULL:
            mask = row < x.rows
        else:
            mask = (row < x.rows) & column_mask
        return Tile(row, columns, mask, column_mask)

    @kiln.jit
    def block(self, x, start):
        """The columns from ``start`` on of a view of one row that is walked in blocks."""
        columns = start + kl.arange(0, self.BLOCK)
        mask = None if self.FULL else columns < x.columns
        return Tile(None, columns, mask, mask)

    @kiln.jit
    def sum(self, value):
        """The sum of each row of a tile, to be used with the tile."""
        return kl.sum(value, axis=0) if self.ROWS == 1 else kl.sum(value, axis=1, keep_dims=True)

    @kiln.jit
    def max(self, value):
        """The maximum of each row of a tile, to be used with the tile."""
        return kl.max(value, axis=0) if self.ROWS == 1 else kl.max(value, axis=1, keep_dims=True)

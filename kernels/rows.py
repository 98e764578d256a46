"""How many threads hold a row, and how many rows a program holds: the launch policy of every kernel that reduces rows.

On a GPU a row stays in registers between the reduction and its use, so that memory is read once. A thread makes a few
16-byte accesses, all in flight before the first is used; long rows are spread over a cluster of blocks, short ones
share a block. On the CPU a program walks one row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import Machine, is_dependent, is_streaming, with_options
from kiln.kernels.operator import tile_side
from kiln.kernels.views import Tile, promise

# Bytes that a thread requests before it uses any: with 1024 threads per multiprocessor, 64 KB are in flight, twice what
# memory latency needs at full rate. Kernels whose rows wait for one exchange do better with half as many bytes and more
# threads.
THREAD_BYTES = 64
VECTOR_BYTES = 16
WARP = 32
BLOCK_THREADS = 128
LARGEST_THREADS = 1024
RESIDENT_THREADS = 2048
# Elements of a row that a thread holds as float32, a register each. A block has at most 512 threads, so that two blocks
# share a multiprocessor and one loads while the other computes. Longer rows use more blocks, in a cluster.
FLOAT_ELEMENTS = 32
BLOCK_ELEMENTS = 512 * FLOAT_ELEMENTS
# In a block of 1024 threads, each has 64 registers. 48 of them hold the row and what is combined with it: a register
# for each element, and half of one for its 16-bit element of each vector.
HELD_REGISTERS = 48
# A longer row of 16-bit elements waits for its statistics in the type it was loaded in, 64 elements in 32 registers.
# Then 64 registers per thread are enough, unless two vectors are needed as well. Blocks are small, so that many share a
# multiprocessor, each at another point of its work; they are twice as large where the cluster would otherwise be larger
# than every GPU with clusters supports.
PACKED_ELEMENTS = 64
PACKED_THREADS = 128
SMALL_BLOCK_ELEMENTS = PACKED_THREADS * PACKED_ELEMENTS
# The compiler takes a few more than 64 registers where none would be needed: a limit for rows of at most 48 elements a
# thread (softmax of 777×24576 20.8 µs, not 21.5; with 56 elements, values would spill).
PACKED_REGISTERS = 64
PORTABLE_CLUSTER = 8
# A few long rows are bound by latency. They are spread over the largest portable cluster as long as this gives at most
# this many blocks per multiprocessor, from this length on (µs: softmax of 1×8192 2.07 instead of 2.36, of 1×13824 2.13
# instead of 2.93, of 44×13824 3.09 instead of 3.47; LayerNorm of 1×13824 2.37 instead of 3.21; residual + RMSNorm of
# 44×11008 3.12 instead of 3.44; of 44×4096 nothing gains). With more blocks it costs more than it gains: softmax of
# 130×18944 would take 5.7 instead of 5.1.
FEW_ROWS_BLOCKS = 3
FEW_ROWS_LEAST = 6144
FEW_ROWS_ELEMENTS = 48
# Rows that are read once and are this many times the size of the L2 are read with the priority that it keeps longest.
# They then displace each other and not the lines on their way to memory: 1 to 4 % faster; smaller ones lose 1 %.
STREAM_L2S = 2.0
STREAM_THREADS = 256
# With many rows that leave more of a block's threads idle than this, several smaller blocks per multiprocessor are
# better.
MOST_IDLE = 1.1
SEVERAL_THREADS = 256
# With two vectors, long rows are read twice, in blocks of this many elements: by threads with one access to a block
# where a row exceeds the registers of a block (LayerNorm of 4096×18944 89 µs instead of 108, of 4096×24576 109 instead
# of 127), and with two where it fills those of a smaller block badly (777×11008 12.5 instead of 13.35, 4096×11008 53.7
# instead of 55.2). The second time, they come from the L1, if it holds the rows of all blocks that a multiprocessor has
# at once, in the part of its 256 KB that is left beside shared memory and what is written.
LONG_BLOCK = 4096
L1_BYTES = 192 << 10
# Smaller blocks may be fewer per multiprocessor, with a limit of registers above what they need: where that fills the
# last wave better (1100×11008 17.4 µs, not 21.2), and where the L1 holds no more (2700×12944 42.8 instead of 52.3).
# Blocks of the next launch, which begin early, would fill a bad wave unevenly (777×11008 13.6 µs, by six blocks 11.6).
# Rows that are not a known multiple of this many elements are read in smaller pieces and would spill.
FEWER_BLOCKS, KNOWN_MULTIPLE = 6, 16
# Many long rows are taken in turns by one program per multiprocessor, which reads the next row while it works on one
# (4096×18944 82.1 µs, 4096×24576 106.4, 777×24576 22.9 instead of 25.1). The two rows take at most 48 of the 128
# registers of a thread.
AHEAD_THREADS, AHEAD_REGISTERS, AHEAD_ROW_REGISTERS = 512, 128, 48
# Two vectors and rows longer than a small block: threads per block, blocks, and the most elements per thread, in the
# order in which they are tried; a form is for rows that leave none of its threads idle (4096×13824 63 µs; with idle
# threads 74). With more than 56 elements per thread, two small blocks do better than one of 256 threads (4096×16384 69
# µs, not 72). At 15,360 columns a thread of the large block has 191 registers, which leaves a multiprocessor one block;
# of the small ones (148 registers) it holds three.
FULL_FORMS = (
    (SEVERAL_THREADS, 1, 56),
    (PACKED_THREADS, 2, PACKED_ELEMENTS),
)
# Registers of a multiprocessor, the unit in which a thread gets them, and those of a thread that hold neither a row nor
# vectors (compiled kernels have 12 to 30).
REGISTERS, REGISTER_GRAIN, OTHER_REGISTERS = 65536, 8, 16
# Rows that need one exchange are spread over small blocks, few rows with fewer elements per thread (RMSNorm of 44×16384
# 3.0 instead of 3.36 µs, of 130×16384 4.53 instead of 4.59, of 130×32768 6.4 instead of 6.75; in dependent launches 2.2
# instead of 2.65, 3.8 instead of 4.2, 5.5 instead of 6.4).
FEW_THREADS, FEW_ELEMENTS = 128, 24
# One exchange of the warps' results costs less than two, as long as a thread holds few elements, or where exchanges
# take longest, over a large cluster (softmax of 44×24576 4.30 µs, not 4.62).
PART_ELEMENTS = 40


@dataclass(frozen=True)
class RowPlan:
    """A launch over rows: a tile of ``rows × block`` and the threads that hold it.

    ``loop``: the row does not fit the registers; it is walked in blocks, and read a second time when it is used.
    ``programs``: that many programs take rows in turns, and read the next while they work on one (None: each row has
    its own program). Only LayerNorm of 16-bit rows has such a form.
    ``registers``: the most that a thread may have (None: the compiler decides). ``streaming``: the rows are several
    times the size of the L2. ``early``: the next launch may begin before this one ends.
    """

    block: int
    rows: int = 1
    num_warps: int = 4
    cluster: int = 1
    loop: bool = False
    programs: int | None = None
    registers: int | None = None
    streaming: bool = False
    early: bool = True

    def grid(self, rows: int) -> tuple[int]:
        return (-(-rows // self.rows),)

    def meta(self, rows: int, n: int, machine: Machine) -> dict[str, Any]:
        """The constexpr argument PLAN, which the kernels share, and the launch options."""
        single = is_dependent() and self.grid(rows)[0] * self.cluster <= machine.processors
        return with_options(_meta(self, rows, n, machine.gpu, single), self.early)

    def options(self) -> dict[str, Any]:
        cluster = {"cluster": self.cluster} if self.cluster > 1 else {}
        registers = {"maxnreg": self.registers} if self.registers else {}
        streaming = {"streaming": True} if self.streaming else {}
        return {"num_warps": self.num_warps, **cluster, **registers, **streaming}


@functools.lru_cache(maxsize=4096)
def _meta(plan: RowPlan, rows: int, n: int, gpu: bool, single: bool) -> dict[str, Any]:
    full = n % plan.block == 0 if plan.loop else n == plan.block
    warps = plan.num_warps * plan.cluster
    most = WARP * warps * (PART_ELEMENTS if plan.cluster < PORTABLE_CLUSTER else FEW_ROWS_ELEMENTS)
    together = gpu and plan.rows == 1 and plan.block % warps == 0 and plan.block <= most
    form = RowForm(plan.block, plan.rows, full, rows % plan.rows == 0, warps if together else 1)
    wave = {"single_wave": True} if single else {}
    return {"PLAN": form, **(plan.options() | wave if gpu else {})}


def plan(
    rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int = 0, thread_bytes: int = THREAD_BYTES
) -> RowPlan:
    """The plan for ``rows`` rows of ``n`` elements, read from ``streams`` arrays of ``itemsize`` bytes per element.

    ``vectors``: how many one-row arrays, such as weights, are combined with every row. ``thread_bytes``: how much a
    thread requests where rows are many and fit a block.
    """
    return _gpu_plan(rows, n, itemsize, streams, machine, vectors, thread_bytes) if machine.gpu else _cpu_plan(n)


@functools.lru_cache(maxsize=4096)
def _cpu_plan(n: int) -> RowPlan:
    return RowPlan(tile_side(n))


def _largest_block(vectors: int) -> int:
    """Elements of a row that a block of the most threads holds, beside ``vectors`` vectors of 16-bit elements."""
    return LARGEST_THREADS * min(FLOAT_ELEMENTS, int(HELD_REGISTERS / (1 + vectors / 2)))


def _small_blocks(
    rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int, thread_bytes: int
) -> tuple[int, int] | None:
    """Threads per block and blocks per cluster for rows that need one exchange, up to two per multiprocessor."""
    longest = PORTABLE_CLUSTER * PACKED_THREADS * FEW_ROWS_ELEMENTS
    if itemsize != 2 or streams > 1 or vectors != 1 or thread_bytes >= THREAD_BYTES or n > longest:
        return None
    if machine.largest_cluster < PORTABLE_CLUSTER or rows > 2 * machine.processors:
        return None
    if rows * PORTABLE_CLUSTER <= FEW_ROWS_BLOCKS * machine.processors:
        blocks = min(PORTABLE_CLUSTER, kiln.next_power_of_2(-(-n // (FEW_THREADS * FEW_ELEMENTS))))
        return (FEW_THREADS, blocks) if n >= FEW_ROWS_LEAST else None
    if n <= SEVERAL_THREADS * FEW_ROWS_ELEMENTS:
        return None
    if rows > machine.processors and n <= 4 * SMALL_BLOCK_ELEMENTS:
        return PACKED_THREADS, 4
    return (SEVERAL_THREADS, 2) if n <= 2 * SEVERAL_THREADS * FEW_ROWS_ELEMENTS else (PACKED_THREADS, PORTABLE_CLUSTER)


def _long(
    rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int, thread_bytes: int
) -> tuple[int, int] | None:
    """Threads per block and blocks per cluster for long rows, where `_cluster` does not give the best; else None."""
    if n > PORTABLE_CLUSTER * BLOCK_ELEMENTS or machine.largest_cluster < PORTABLE_CLUSTER:
        return None
    if rows * PORTABLE_CLUSTER <= FEW_ROWS_BLOCKS * machine.processors and n >= FEW_ROWS_LEAST:
        each = FLOAT_ELEMENTS if n < BLOCK_ELEMENTS else FEW_ROWS_ELEMENTS
        return kiln.next_power_of_2(-(-n // (PORTABLE_CLUSTER * each))), PORTABLE_CLUSTER
    few = rows <= machine.processors
    least = BLOCK_ELEMENTS if few and vectors == 0 else BLOCK_ELEMENTS + 1
    if itemsize != 2 or n < least or rows > 2 * machine.processors:
        return None
    # Small blocks in a cluster, as many as their registers need: rows of one multiprocessor are then at different
    # points of their work (µs: softmax of 130×24576 5.78 instead of 6.18 by one block of 1024 threads, LayerNorm 5.88
    # instead of 6.15; more rows than multiprocessors do with smaller blocks still: 264×32768 11.35 instead of 12.06,
    # RMSNorm of 264×18944 6.79 instead of 7.31, residual + RMSNorm 11.7 instead of 12.3). Without vectors there are
    # registers to spare, but no time: each thread has fewer elements (130×32768 6.88 instead of 7.07).
    if few:
        threads, each = SEVERAL_THREADS, PART_ELEMENTS if vectors == 0 else PACKED_ELEMENTS
    else:
        threads, each = PACKED_THREADS, PACKED_ELEMENTS // streams
    blocks = kiln.next_power_of_2(-(-n // (threads * each)))
    return (threads, blocks) if blocks <= PORTABLE_CLUSTER else None


def _cluster(rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int) -> tuple[int, bool] | None:
    """How many blocks share a row, and whether the row waits packed; None if it exceeds every cluster's registers."""
    if n <= BLOCK_ELEMENTS:
        return 1, False
    small = PACKED_THREADS * PACKED_ELEMENTS
    part = small if n <= PORTABLE_CLUSTER * small else 2 * small
    cluster = min(machine.largest_cluster, kiln.next_power_of_2(-(-n // part)))
    # Where packing would leave multiprocessors without a block, more threads finish sooner.
    packed = itemsize == 2 and streams == 1 and vectors < 2 and rows * cluster >= 2 * machine.processors
    if not packed:
        cluster = min(machine.largest_cluster, kiln.next_power_of_2(-(-n // BLOCK_ELEMENTS)))
    return (cluster, packed) if n <= cluster * _largest_block(vectors) else None


def _elements(
    rows: int, n: int, part: int, itemsize: int, streams: int, machine: Machine, thread_bytes: int, streaming: bool
) -> int:
    """Elements that a thread holds, of the ``part`` elements of a row in its block, if the row does not wait packed."""
    vector = max(1, VECTOR_BYTES // itemsize)
    each = max(vector, thread_bytes // (itemsize * streams))
    if rows <= machine.processors:
        # Bound by latency, not bandwidth: as many threads as the row keeps busy, in few enough warps for a quick
        # exchange.
        each = vector if n > 512 * vector or streams > 1 else 2 * vector
    elif rows <= 4 * machine.processors:
        each = max(vector, each // 2)
    if part > BLOCK_ELEMENTS:
        return max(each, FLOAT_ELEMENTS)
    # Two arrays take twice as long to arrive: one access to each, by as many threads as possible, unless there are more
    # rows than multiprocessors, and two blocks could share one (residual + RMSNorm of 264×13824 8.9 instead of 10.1).
    shared = machine.processors < rows <= 4 * machine.processors
    threads = 512 if streams == 1 or shared else 1024
    each = max(each, vector * -(-part // (threads * vector)))
    # Streams gain more from twice the bytes per thread than from larger blocks.
    return 2 * each if streaming and streams == 1 and each < 32 and part > STREAM_THREADS * each else each


def _block(n: int, threads: int, cluster: int, vector: int, least: int) -> int:
    """The tile of a row: whole vectors on each of its threads; the excess is masked and costs no traffic. Smaller
    vectors (of ``least`` elements) if they leave no excess: a row without masks is faster than one with the widest
    accesses."""
    spread = threads * cluster
    return n if least and tile_side(n, spread * least) == n else tile_side(n, spread * vector)


def _ragged(n: int, threads: int, cluster: int, most: int, streams: int, vectors: int) -> tuple[int, int]:
    """Threads per block and blocks per cluster for many rows of 16-bit elements, so that most threads have something to
    do: 5120 elements on 512 threads of 16 leave a third of them idle, on 256 threads of 20 none.

    ``most``: the largest allowed number of blocks in a cluster. Beside two vectors of weights, a thread has room for 64
    elements if none is masked, or if four small blocks share the row and read the weights late (LayerNorm of 4096×14000
    81 instead of 98 µs).
    """
    if vectors > 1 and n > SMALL_BLOCK_ELEMENTS:
        for full, blocks, each in FULL_FORMS:
            if blocks <= most and n <= full * blocks * each and _block(n, full, blocks, 8, 2) == n:
                return full, blocks
        return (PACKED_THREADS, 4) if most >= 4 and n <= 4 * SMALL_BLOCK_ELEMENTS else (threads, cluster)
    # With no other registers needed, a row does better on fewer threads that hold more of it (softmax of 777×16384 15.0
    # instead of 16.8 µs, of 4096×16384 66.5 instead of 68.1, of 777×12288 11.9 instead of 12.5).
    if vectors == 0 and streams == 1 and threads > SEVERAL_THREADS and n <= SEVERAL_THREADS * PACKED_ELEMENTS:
        if _block(n, SEVERAL_THREADS, 1, 8, 4) <= 1.05 * n:
            return SEVERAL_THREADS, 1
    # One vector: four small blocks, where 256 threads would be short of registers (RMSNorm of 777×13824 12.4 instead of
    # 14.0 µs, of 777×16384 14.0 instead of 15.1, of 4096×13824 55.6 instead of 58.3).
    if vectors == 1 and streams == 1 and n > SEVERAL_THREADS * FEW_ROWS_ELEMENTS and most >= 4 and cluster == 1:
        return PACKED_THREADS, 4
    # 256 threads for each array that is read are few enough.
    if vectors > 1 or threads <= SEVERAL_THREADS * streams or _block(n, threads, cluster, 8, 4) <= MOST_IDLE * n:
        return threads, cluster
    each = PACKED_ELEMENTS if streams == 1 else FEW_ROWS_ELEMENTS
    blocks = kiln.next_power_of_2(-(-n // (SEVERAL_THREADS * each)))
    return (SEVERAL_THREADS, blocks) if blocks <= most else (threads, cluster)


def _even(n: int, threads: int, streams: int) -> tuple[int, int]:
    """Threads per block, and elements of the narrowest access, for few rows of 16-bit elements that would leave many
    threads of a larger block idle (softmax of 130×5120 2.92 instead of 3.12 µs, residual and RMSNorm of 44×5120 2.7
    instead of 2.85). Fewer threads request at most ``THREAD_BYTES`` each, so that all of a row is in flight at once."""
    fewer = SEVERAL_THREADS * streams
    in_flight = 2 * n * streams <= fewer * THREAD_BYTES
    if threads <= fewer or not in_flight or _block(n, threads, 1, 8, 4) <= MOST_IDLE * n:
        return threads, 4
    if streams > 1:
        return fewer, 8
    return (fewer if _block(n, fewer, 1, 8, 4) == n else threads), 4


def _rows_at_once(block: int, threads: int, cluster: int, itemsize: int, streams: int, vectors: int) -> float:
    """How many rows the registers and threads of a multiprocessor are enough for, by estimate."""
    held = block / (threads * cluster) * (streams + vectors * itemsize / 4)
    registers = -(-int(held + OTHER_REGISTERS) // REGISTER_GRAIN) * REGISTER_GRAIN
    return min(RESIDENT_THREADS // threads, REGISTERS // (threads * registers)) / cluster


def _early(
    block: int,
    threads: int,
    cluster: int,
    rows: int,
    n: int,
    itemsize: int,
    streams: int,
    machine: Machine,
    vectors: int,
    thread_bytes: int,
) -> bool:
    """Whether the next launch may begin before this one ends. Its blocks then go where there is room beside this one's,
    which can cost more than it gains.

    Rows about as many as multiprocessors should go one to each. Where two fit, a multiprocessor without a row of this
    launch gets two of the next, which delays rows of many operations (softmax of 130×6656 3.0 or 3.8 µs, LayerNorm of
    130×3072 2.2 or 2.6), unless a thread makes only one access. Where one fits, the next begins as this one ends
    (LayerNorm of 130×16384 4.36 instead of 4.66 µs, of 130×13824 4.1 instead of 4.55). A cluster's row is on several,
    so that none gets a whole row more (softmax of 130×24576 5.13 instead of 5.79 µs, RMSNorm of 130×18944 4.33 instead
    of 4.77).
    """
    if 2 * rows > machine.processors >= rows and cluster == 1 and thread_bytes >= THREAD_BYTES:
        one = _rows_at_once(block, threads, cluster, itemsize, streams, vectors) <= 1
        return one or n * itemsize <= threads * VECTOR_BYTES
    # Of many rows, blocks still wait for a place: large ones with idle threads lose more by waiting longer (3 % of
    # LayerNorm's time at 11,008 columns).
    many = itemsize == 2 and vectors > 1 and rows > 4 * machine.processors
    return not many or threads <= SEVERAL_THREADS


def _read_twice(rows: int, n: int, vectors: int, machine: Machine, streaming: bool) -> RowPlan | None:
    """The plan for rows of 16-bit elements that two vectors leave no room for, or too little; else None."""
    vector, many = VECTOR_BYTES // 2, rows > 4 * machine.processors
    if vectors < 2 or n <= SMALL_BLOCK_ELEMENTS:
        return None
    if n > BLOCK_ELEMENTS:
        # On GPUs without clusters a few registers would spill.
        if many and machine.largest_cluster > 1 and n <= AHEAD_THREADS * AHEAD_ROW_REGISTERS:
            block, warps, programs = tile_side(n, AHEAD_THREADS * vector), AHEAD_THREADS // WARP, machine.processors
            # A launch that begins early finds no registers free.
            return RowPlan(block, 1, warps, 1, False, programs, AHEAD_REGISTERS, streaming, early=False)
        threads = LONG_BLOCK // vector
    elif many and _block(n, SEVERAL_THREADS, 1, vector, 2) > n:
        threads = SEVERAL_THREADS
    else:
        return None
    most = RESIDENT_THREADS // threads
    fewer = [FEWER_BLOCKS] if threads == SEVERAL_THREADS and n % KNOWN_MULTIPLE == 0 else []
    fitting = [blocks for blocks in (most, *fewer) if blocks * 2 * n <= L1_BYTES]
    if not fitting:
        return None

    def fullness(blocks: int) -> float:
        wave = blocks * machine.processors
        return rows / (-(-rows // wave) * wave)

    blocks = max(fitting, key=fullness)
    registers = None if blocks == most else REGISTERS // (blocks * threads) // REGISTER_GRAIN * REGISTER_GRAIN
    return RowPlan(LONG_BLOCK, num_warps=threads // WARP, loop=True, registers=registers)


@functools.lru_cache(maxsize=4096)
def _gpu_plan(
    rows: int, n: int, itemsize: int, streams: int, machine: Machine, vectors: int, thread_bytes: int
) -> RowPlan:
    vector = max(1, VECTOR_BYTES // itemsize)
    streaming = is_streaming(rows * n * itemsize * streams, machine, STREAM_L2S)
    shape = rows, n, itemsize, streams, machine, vectors, thread_bytes
    if long := _small_blocks(*shape) or _long(*shape):
        threads, cluster = long
        # For two arrays the narrowest tile: with fewer registers, blocks of the next launch fit too (5.99, not 7.17
        # µs).
        block = tile_side(n, threads * cluster * (2 if streams > 1 else vector))
        early = _early(block, threads, cluster, *shape)
        return RowPlan(block, 1, threads // WARP, cluster, streaming=streaming, early=early)
    spread = _cluster(rows, n, itemsize, streams, machine, vectors)
    if spread is None:
        return RowPlan(8192, num_warps=16, loop=True)
    if itemsize == 2 and (twice := _read_twice(rows, n, vectors, machine, streaming)):
        return twice
    cluster, packed = spread
    part = -(-n // cluster)
    if packed:
        each = PACKED_ELEMENTS
    else:
        each = _elements(rows, n, part, itemsize, streams, machine, thread_bytes, streaming)
    threads = min(LARGEST_THREADS, kiln.next_power_of_2(-(-part // each)))
    # A row has at least one warp. A lone row waits less with a whole block of narrow accesses (RMSNorm of 1×512 1.63
    # instead of 1.72 µs).
    least = vector // 2
    if n >= WARP * vector:
        threads = max(threads, WARP)
    if rows <= machine.processors and n >= BLOCK_THREADS * least:
        threads = max(threads, BLOCK_THREADS)
    if itemsize == 2 and not packed:
        if rows <= machine.processors:
            threads, least = _even(n, threads, streams)
        elif rows <= 4 * machine.processors:
            # Where registers leave room for one large block, two smaller ones take two rows at once (LayerNorm of
            # 264×16384 6.7 instead of 8.4 µs).
            if vectors > 1 and threads == 512 and _rows_at_once(n, threads, cluster, itemsize, streams, vectors) < 2:
                threads = SEVERAL_THREADS
        else:
            most = min(machine.largest_cluster, PORTABLE_CLUSTER)
            threads, cluster = _ragged(n, threads, cluster, most, streams, vectors)
            if vectors > 1 and n > SMALL_BLOCK_ELEMENTS:
                least = 2
            elif vectors == 0 and streams == 1 and threads == SEVERAL_THREADS and cluster == 1:
                # Narrow accesses that leave nothing idle, rather than masks (softmax of 777×6656 6.95 µs, not 7.29).
                most = MOST_IDLE * n
                least = 2 if _block(n, threads, 1, vector, least) > most and n % (threads * 2) == 0 else least
    # Of two arrays, half the threads if all rows then fit at once (residual + RMSNorm of 777×3584 6.97 µs, not 7.20).
    resident = RESIDENT_THREADS * machine.processors
    if streams > 1 and cluster == 1 and threads >= 512 and rows * threads // 2 <= resident < rows * threads:
        threads, least = threads // 2, vector
    block = _block(n, threads, cluster, vector, least)
    if threads >= BLOCK_THREADS or cluster > 1:
        registers = PACKED_REGISTERS if packed and vectors == 0 and part <= PACKED_THREADS * FEW_ROWS_ELEMENTS else None
        early = _early(block, threads, cluster, *shape)
        return RowPlan(block, 1, max(1, threads // 32), cluster, registers=registers, streaming=streaming, early=early)
    several = BLOCK_THREADS // threads
    # Rows of two arrays take longer, and more blocks hide that (residual + RMSNorm of 777×512 2.65 µs, not 2.73).
    while several > 1 and -(-rows // several) < 2 * streams * machine.processors:
        several //= 2
    return RowPlan(block, max(1, several), max(1, several * threads // 32), 1, streaming=streaming)


# ---- the plan as kernels see it --------------------------------------------------------------------------------------
@kiln.jit
def rows_tile(x, ROWS: kl.constexpr, BLOCK: kl.constexpr, FULL: kl.constexpr, EVEN: kl.constexpr):
    """The ROWS rows of x that a program holds. FULL: no column is missing; EVEN: no row is missing."""
    first = kl.program_id(0) * ROWS
    promise(FULL, 0, BLOCK, x.columns)
    promise(EVEN, first, ROWS, x.rows)
    row, columns = (first + kl.arange(0, ROWS))[:, None], kl.arange(0, BLOCK)[None, :]
    column_mask = columns < x.columns
    return Tile(row, columns, (row < x.rows) & column_mask, column_mask)


@kiln.struct
class RowForm:
    """How a program holds rows: ROWS rows of BLOCK columns each. PLAN of the kernels that reduce rows.

    FULL: no column is missing; EVEN: no row is missing. PARTS: the number of warps that each reduce their own part of a
    row and exchange results once; 1 if they exchange at each step.
    """

    BLOCK: kl.constexpr
    ROWS: kl.constexpr = 1
    FULL: kl.constexpr = False
    EVEN: kl.constexpr = True
    PARTS: kl.constexpr = 1

    @kiln.jit
    def parts(self, x):
        """The same elements of x as `tile`, one row split into parts, so that a reduction stays within a warp."""
        if self.PARTS == 1:
            return self.tile(x)
        # Warps take adjacent runs of columns, as wide as their widest accesses.
        COLUMNS: kl.constexpr = self.BLOCK // self.PARTS
        RUN: kl.constexpr = 256 if COLUMNS % 256 == 0 else COLUMNS
        part, column = kl.arange(0, self.PARTS)[:, None], kl.arange(0, COLUMNS)[None, :]
        columns = column // RUN * (self.PARTS * RUN) + part * RUN + column % RUN
        promise(self.FULL, 0, self.BLOCK, x.columns)
        mask = columns < x.columns
        return Tile(kl.program_id(0), columns, mask, mask)

    @kiln.jit
    def tile(self, x):
        """The rows of x that this program holds. A single row is a vector, so its statistics are scalars."""
        if self.ROWS == 1:
            return self.row(x, kl.program_id(0))
        return rows_tile(x, self.ROWS, self.BLOCK, self.FULL, self.EVEN)

    @kiln.jit
    def row(self, x, index):
        """One row of x, as a vector."""
        columns = kl.arange(0, self.BLOCK)
        promise(self.FULL, 0, self.BLOCK, x.columns)
        mask = columns < x.columns
        return Tile(index, columns, mask, mask)

    @kiln.jit
    def block(self, x, start):
        """The block of columns that begins at ``start``, for a one-row view that is walked in blocks."""
        columns = start + kl.arange(0, self.BLOCK)
        promise(self.FULL, start, self.BLOCK, x.columns)
        mask = columns < x.columns
        return Tile(None, columns, mask, mask)

    @kiln.jit
    def sum(self, value):
        """The sum of each row of a tile, or of each part, in a shape that combines with the tile."""
        return kl.sum(value, axis=0) if len(value.shape) == 1 else kl.sum(value, axis=1, keep_dims=True)

    @kiln.jit
    def max(self, value):
        """The maximum of each row of a tile, or of each part, in a shape that combines with the tile."""
        return kl.max(value, axis=0) if len(value.shape) == 1 else kl.max(value, axis=1, keep_dims=True)

"""Launch policies: GPU launches are legal and cover their work; every form of a row kernel gives the same answer.

Forms planned only for GPUs (several rows per program, rows processed in blocks) run here on the CPU target.
"""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln import knobs
from kiln.kernels import flat, machine, rows
from kiln.kernels.activation import bias_gelu, swiglu
from kiln.kernels.case import blank
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import CPU, DEFAULT_GPU, Machine
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm
from kiln.kernels.norm import reference as norm
from kiln.kernels.operator import tile_side
from kiln.kernels.optimizer import adamw
from kiln.kernels.rows import RowPlan
from kiln.kernels.softmax import reference, softmax

OLDER = Machine(processors=108)
LENGTHS = [1, 7, 33, 64, 127, 896, 1000, 1536, 3584, 4096, 5003, 8192, 11008, 16384, 16385, 32768, 50000, 65536, 131072,
           200001, 262144, 500000, 1 << 20]  # fmt: skip


def is_legal_side(side):
    while side % 2 == 0:
        side //= 2
    return side <= 31


@pytest.mark.parametrize("where", [DEFAULT_GPU, OLDER], ids=["clusters", "no clusters"])
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("count", [1, 100, 400, 2048, 16384])
def test_row_plans(count, itemsize, streams, where):
    for n in LENGTHS:
        plan = rows.plan(count, n, itemsize, streams, where)
        threads = 32 * plan.num_warps
        held = plan.rows * plan.block / (threads * plan.cluster)
        about = f"{n}: {plan}, {held} elements a thread"
        assert is_legal_side(plan.block) and plan.num_warps in (1, 2, 4, 8, 16, 32), about
        assert plan.cluster in (1, 2, 4, 8, 16) and (plan.cluster <= where.largest_cluster), about
        assert held <= 64 and held * threads <= 32768, about
        assert plan.grid(count)[0] * plan.rows >= count and plan.rows & (plan.rows - 1) == 0, about
        if plan.loop:
            assert n > 32768 * where.largest_cluster, about
        else:
            assert plan.block >= n and plan.block % (plan.cluster * 2) in (0, 1), about
            # Padding costs no traffic, but threads: never more than twice what the row needs.
            assert plan.block < 2 * n + 16 * threads, about
        if plan.rows > 1:
            assert plan.grid(count)[0] >= 2 * where.processors, about


def test_wide_rows_are_kept_in_their_own_type():
    """16-bit rows longer than a block: 64 elements per thread in small blocks, weights loaded together with the row."""
    assert rows.plan(8192, 32768, 2, 1, DEFAULT_GPU) == RowPlan(32768, 1, 4, 4, streaming=True)
    assert rows.plan(512, 131072, 2, 1, DEFAULT_GPU) == RowPlan(131072, 1, 8, 8, streaming=True)
    weighted = rows.plan(512, 131072, 2, 1, DEFAULT_GPU, vectors=1)
    assert weighted == RowPlan(131072, 1, 8, 8, streaming=True)
    assert rows.plan(1024, 32768, 2, 1, DEFAULT_GPU, vectors=1) == RowPlan(32768, 1, 4, 4)
    # No such plan if there is no room for two vectors, no gain (float32 or two arrays), or no other block on the
    # multiprocessor.
    for count, itemsize, streams, vectors in ((4096, 2, 1, 2), (4096, 4, 1, 0), (4096, 2, 2, 1), (4, 2, 1, 0)):
        other = rows.plan(count, 131072, itemsize, streams, DEFAULT_GPU, vectors=vectors)
        assert other.block / (32 * other.num_warps * other.cluster) <= 32, other


@pytest.mark.parametrize("vectors", [0, 1, 2])
def test_rows_of_half_vectors_have_no_masks(vectors):
    assert rows.plan(16384, 896, 2, 1, DEFAULT_GPU, vectors) == RowPlan(896, 4, 4)
    assert rows.plan(16384, 3584, 2, 1, DEFAULT_GPU, vectors).block == 3584
    assert rows.plan(16384, 900, 2, 1, DEFAULT_GPU, vectors).block == 1024


def test_streams_far_larger_than_the_l2_are_read_evict_first():
    """Decided by the bytes read and the device's own cache; for rows of one array, rows of two, flat arrays; never on
    the CPU."""
    small = DEFAULT_GPU._replace(l2_bytes=10 << 20)
    for count, n, streams, large, where in (
        (16384, 4096, 1, True, DEFAULT_GPU), (8192, 4096, 1, False, DEFAULT_GPU), (8192, 4096, 2, True, DEFAULT_GPU),
        (8192, 4096, 1, True, small), (16384, 4096, 1, False, CPU),
    ):  # fmt: skip
        assert rows.plan(count, n, 2, streams, where).streaming == large, (count, n, streams)
        assert flat.plan(n, 2, where, read_bytes=2 * count * n * 2 * streams).streaming == large
    assert flat.plan(1 << 30, 2, DEFAULT_GPU).streaming is False
    # Twice the bytes per thread, but only for streams.
    assert rows.plan(16384, 8192, 2, 1, DEFAULT_GPU, 1, 32) == RowPlan(8192, 1, 8, streaming=True)
    assert rows.plan(2048, 8192, 2, 1, DEFAULT_GPU, 1, 32) == RowPlan(8192, 1, 16)
    # Rows that are read twice should still be in the cache.
    looped = rows.plan(4096, 1 << 20, 2, 1, OLDER)
    assert looped.loop and not looped.streaming


STREAMS = {
    "rms_norm": (lambda x: rms_norm(x, x[0]), 1),
    "residual_rms_norm": (lambda x: residual_rms_norm(x, x, x[0]), 2),
    "layer_norm": (lambda x: layer_norm(x, x[0], x[0]), 1),
    "softmax": (softmax, 1),
    "swiglu": (lambda x: swiglu(x, x), 2),
    "swiglu interleaved": (lambda x: swiglu(x, layout="interleaved"), 1),
    "bias_gelu": (lambda x: bias_gelu(x, x[0]), 1),
    "adamw": (lambda x: adamw(x, x.copy(), x.copy(), x.copy(), 1), 4),
    "adamw lists": (lambda x: adamw(*([x.copy()] for _ in range(4)), 1), 4),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_priority_reaches_every_stream_and_no_vector(name):
    launch, streams = STREAMS[name]
    for l2_bytes, reads in ((1 << 20, 0), (1024, streams)):
        where = DEFAULT_GPU._replace(l2_bytes=l2_bytes)
        (found,) = launches_of(lambda: launch(np.zeros((16, 4096), np.float16)), where)
        text = str(found.compile("sm_90a", "kgpu").output)
        hinted = [line for line in text.splitlines() if "tile.load" in line and "evict_last" in line]
        assert len(hinted) == text.count("evict_last") == reads, text


def test_the_cpu_walks_one_row():
    assert rows.plan(16384, 896, 4, 1, CPU) == RowPlan(896)
    assert "num_warps" not in RowPlan(896).meta(1, 896, CPU)
    meta = RowPlan(896, num_warps=8, cluster=2).meta(1, 896, DEFAULT_GPU)
    assert (meta["num_warps"], meta["cluster"], meta["PLAN"].BLOCK) == (8, 2, 896)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("n", [1, 100, 14336, 1 << 16, 1 << 20, 1 << 24, 50_000_000])
def test_flat_plans(n, itemsize):
    plan = flat.plan(n, itemsize, DEFAULT_GPU)
    each = plan.block // (32 * plan.num_warps)
    programs = -(-n // plan.block)
    if programs >= 132 and plan.num_warps == 4:
        assert each * itemsize == 16
        return
    # Accesses are narrow until the programs cover the machine, and no narrower than that.
    assert plan.num_warps == 8 and 1 <= each <= 8 // itemsize
    assert each == 1 or programs >= 132 > -(-n // (2 * plan.block)) or each == 8 // itemsize


def test_blocks_that_end_rows_early_shrink():
    assert flat.plan(16384, 2, DEFAULT_GPU, rows=2048, accesses=2).block == 2048
    assert flat.plan(11008, 2, DEFAULT_GPU, rows=2048, accesses=2).block == 1024
    # Below one access for each of four warps only if all programs run at once.
    assert [flat.plan(3584, 2, DEFAULT_GPU, rows=r).block for r in (130, 603, 604, 4096)] == [512, 512, 1024, 1024]


def test_rows_whose_threads_would_idle():
    """256 threads for many rows, with at most 48 elements each for two streams; plans without waste stay the same."""
    for n, streams, block, cluster in ((5120, 1, 5120, 1), (5120, 2, 5120, 1), (11008, 1, 12288, 1),
                                       (11008, 2, 12288, 1), (18944, 2, 20480, 2)):  # fmt: skip
        found = rows.plan(4096, n, 2, streams, DEFAULT_GPU, 1, 32)
        assert (found.block, found.num_warps, found.cluster) == (block, 8, cluster), (n, streams)
    for n, streams, block, warps in ((5120, 1, 5120, 8), (6656, 1, 8192, 16), (5120, 2, 8192, 16)):
        found = rows.plan(100, n, 2, streams, DEFAULT_GPU, 1, 32)
        assert (found.block, found.num_warps) == (block, warps), (n, streams)
    assert rows.plan(4096, 5120, 4, 1, DEFAULT_GPU, 1, 32).num_warps > 8
    assert rows.plan(4096, 4096, 2, 2, DEFAULT_GPU, 1, 32).num_warps == 16  # no thread idles


def test_a_few_long_rows_are_spread_over_a_large_cluster():
    """With more rows, the multiprocessors are busy anyway."""
    for rows_, n, itemsize, streams, vectors, warps in ((1, 18944, 2, 1, 0, 2), (44, 18944, 2, 2, 1, 2),
                                                        (1, 18944, 2, 1, 2, 2), (1, 32768, 4, 1, 0, 4),
                                                        (1, 6144, 2, 1, 0, 1), (49, 8193, 2, 1, 2, 2)):  # fmt: skip
        found = rows.plan(rows_, n, itemsize, streams, DEFAULT_GPU, vectors)
        assert (found.num_warps, found.cluster) == (warps, 8), (rows_, n)
    for rows_, n in ((50, 18944), (1, 6143)):
        assert rows.plan(rows_, n, 2, 1, DEFAULT_GPU).cluster < 8, (rows_, n)
    assert rows.plan(1, 18944, 2, 1, OLDER).cluster == 1


def test_rows_that_need_one_exchange_are_spread_over_small_blocks():
    """Few rows with at most 24 elements per thread, up to the largest cluster; up to one row per multiprocessor with
    48, up to two with 64; more rows by another rule."""
    for rows_, n, warps, cluster in (
        (1, 6143, 16, 1),
        (1, 6144, 4, 2),
        (1, 8192, 4, 4),
        (49, 12288, 4, 4),
        (49, 12289, 4, 8),
        (49, 49152, 4, 8),
        (130, 12288, 16, 1),
        (130, 12289, 8, 2),
        (264, 24576, 4, 4),
        (264, 32769, 4, 8),
        (265, 32768, 4, 4),
    ):
        found = rows.plan(rows_, n, 2, 1, DEFAULT_GPU, 1, 32)
        assert (found.num_warps, found.cluster) == (warps, cluster), (rows_, n)
    assert rows.plan(1, 16384, 2, 1, OLDER, 1, 32).cluster == 1


def test_a_long_row_for_each_multiprocessor():
    """Blocks of 256 threads, of which each holds up to 64 elements, 40 where there are no vectors; with more rows than
    multiprocessors, blocks of 128."""
    for rows_, n, streams, vectors, asked, warps, cluster in (
        (130, 16384, 1, 0, 64, 8, 2),
        (130, 20480, 1, 0, 64, 8, 2),
        (130, 24576, 1, 0, 64, 8, 4),
        (130, 32768, 1, 0, 64, 8, 4),
        (130, 16385, 1, 2, 64, 8, 2),
        (130, 32768, 1, 2, 64, 8, 2),
        (264, 18944, 1, 0, 64, 4, 4),
        (264, 32768, 1, 2, 64, 4, 4),
        (264, 18944, 2, 1, 32, 4, 8),
        (130, 18944, 1, 1, 32, 8, 2),
        (130, 18944, 2, 1, 32, 8, 2),
        (777, 18944, 1, 0, 64, 4, 4),
        (777, 24576, 1, 0, 64, 4, 4),
    ):
        found = rows.plan(rows_, n, 2, streams, DEFAULT_GPU, vectors, asked)
        assert (found.num_warps, found.cluster) == (warps, cluster), (rows_, n, streams, vectors)


def test_plans_that_lose_by_it_do_not_use_dependent_launch():
    with machine.launch_options(pdl=True):
        for rows_, n, vectors, asked, early in (
            (4096, 14008, 2, 128, True),
            (777, 18944, 2, 64, False),
            (777, 10240, 2, 64, True),
            (4096, 8192, 2, 64, True),
            (4096, 18944, 1, 64, True),
            (4096, 16384, 2, 64, True),
            (130, 6656, 0, 64, False),
            (130, 6656, 1, 32, True),
            (44, 6656, 0, 64, True),
            (133, 6656, 0, 64, True),
            (130, 18944, 0, 64, True),
            # A row is on several multiprocessors.
            (130, 16385, 1, 32, True),
            (130, 18944, 1, 32, True),
            (130, 20481, 1, 32, True),
            (44, 18944, 1, 32, True),
            (133, 18944, 1, 32, True),
            # Of many operations: two, one; one access per thread.
            (130, 12288, 2, 128, False),
            (130, 12289, 2, 128, True),
            (130, 16384, 2, 128, True),
            (130, 12288, 0, 64, False),
            (130, 16384, 0, 64, True),
            (130, 1024, 0, 64, True),
            (130, 1025, 0, 64, False),
        ):
            found = rows.plan(rows_, n, 2, 1, DEFAULT_GPU, vectors, asked)
            assert ("pdl" in found.meta(rows_, n, DEFAULT_GPU)) == early, (rows_, n, vectors)


def test_long_rows_with_two_vectors_are_read_twice_or_ahead():
    for rows_, n, warps in ((300, 24576, 16), (4096, 11008, 8), (777, 9000, 8)):
        assert rows.plan(rows_, n, 2, 1, DEFAULT_GPU, 2) == RowPlan(4096, num_warps=warps, loop=True), (rows_, n)
    for rows_, n, block in ((4096, 18944, 20480), (777, 24576, 24576)):
        found = rows.plan(rows_, n, 2, 1, DEFAULT_GPU, 2)
        assert (found.block, found.num_warps, found.programs, found.loop) == (block, 16, 132, False), (rows_, n)
        assert rows.plan(rows_, n, 2, 1, OLDER, 2).loop
    for rows_, n, itemsize, vectors in (
        (4096, 18944, 2, 1),
        (130, 18944, 2, 2),
        (300, 11008, 2, 2),
        (4096, 10240, 2, 2),
        (4096, 13824, 2, 2),
        (4096, 28000, 2, 2),
        (4096, 18944, 4, 2),
    ):
        found = rows.plan(rows_, n, itemsize, 1, DEFAULT_GPU, vectors)
        assert not found.loop and not found.programs, (rows_, n, itemsize, vectors)


@pytest.mark.parametrize(("count", "n", "registers"), [
    (600, 11008, 40), (777, 11008, 40), (1100, 9088, 40), (1500, 11008, 40),  # six blocks fill the last wave better
    (1000, 11008, None), (2000, 9088, None), (2700, 9088, None), (4096, 11008, None),  # eight do, or it is the same
    (1000, 12944, 40), (2700, 12944, 40),  # the L1 does not hold the rows of eight
    (777, 9096, None),  # elements are read in smaller pieces, and forty registers would spill
])  # fmt: skip
def test_rows_that_are_read_twice_fill_the_last_wave(count, n, registers):
    found = rows.plan(count, n, 2, 1, DEFAULT_GPU, 2)
    assert (found.loop, found.num_warps, found.registers) == (True, 8, registers)


@pytest.mark.parametrize("count", [300, 777, 4096])
def test_rows_that_are_read_twice_stay_in_the_l1(count):
    """At most 192 KB for the rows of all blocks that are resident at once."""
    for n in [*range(8200, 40000, 331), 12288, 12289, 24576, 24577]:
        found = rows.plan(count, n, 2, 1, DEFAULT_GPU, 2, 128 if n <= 16384 else 64)
        blocks = min(2048, 65536 // (found.registers or 32)) // (32 * found.num_warps)
        assert not found.loop or blocks * 2 * n <= 192 << 10, n
        assert found.loop or found.programs or found.block <= 64 * 32 * found.num_warps * found.cluster, n


def test_full_rows_of_two_vectors_take_small_blocks():
    """With more than 56 elements per thread, two blocks of 128 threads, not one of 256; one without clusters."""
    for n, warps, cluster in ((13824, 8, 1), (14336, 8, 1), (14848, 4, 2), (15360, 4, 2), (16384, 4, 2)):
        found = rows.plan(4096, n, 2, 1, DEFAULT_GPU, 2, 128)
        assert (found.block, found.num_warps, found.cluster) == (n, warps, cluster), n
        assert rows.plan(4096, n, 2, 1, OLDER, 2, 128).cluster == 1


def test_short_rows_have_a_warp():
    assert rows.plan(4096, 512, 2, 1, DEFAULT_GPU) == RowPlan(512, rows=4, num_warps=4)
    assert rows.plan(1, 512, 2, 1, DEFAULT_GPU).num_warps == 4


def test_parts_are_of_few_elements():
    for plan, parts in ((RowPlan(2048, num_warps=4), 4), (RowPlan(20480, num_warps=4, cluster=4), 16),
                        (RowPlan(24576, num_warps=2, cluster=8), 16), (RowPlan(24576, num_warps=4, cluster=4), 1),
                        (RowPlan(32768, num_warps=4, cluster=4), 1), (RowPlan(512, rows=4), 1),
                        (RowPlan(1000, num_warps=16), 1)):  # fmt: skip
        assert plan.meta(4096, plan.block, DEFAULT_GPU)["PLAN"].PARTS == parts, plan
    assert RowPlan(2048, num_warps=4).meta(4096, 2048, CPU)["PLAN"].PARTS == 1


def test_long_rows_with_two_vectors_are_not_masked():
    """If few enough elements fall to each thread; otherwise a thread holds little."""
    for n, block, warps, cluster in ((13824, 13824, 8, 1), (32768, 32768, 4, 4), (14008, 16384, 4, 4),
                                     (28000, 28672, 4, 4)):  # fmt: skip
        found = rows.plan(4096, n, 2, 1, DEFAULT_GPU, 2, 128 if n <= 16384 else 64)
        assert (found.block, found.num_warps, found.cluster) == (block, warps, cluster), n


@pytest.mark.parametrize("n,early", [(4096, True), (13824, True), (14336, True), (14008, False)])
def test_weights_are_read_with_the_row_if_registers_allow(n, early):
    """`kiln-hoist-reads` decides this by what each thread of the plan holds."""
    x, weight = blank((4096, n), "float16"), blank((n,), "float16")
    (found,) = launches_of(lambda: layer_norm(x, weight, weight), DEFAULT_GPU)
    text = str(found.compile("sm_90a", "kgpu").output)
    before, behind = text[: text.index("reduce(")], text[text.index("reduce(") :]
    row = f"-> tensor<{found.parameters[-1].items[0].value}xf16"
    vectors = (before.count(row) - 1, behind.count(row))
    assert vectors == ((2, 0) if early else (0, 2)), text


def test_long_rows_alone_take_fewer_threads():
    for n, vectors, warps, cluster in ((16384, 0, 8, 1), (12288, 0, 8, 1), (12288, 1, 16, 1), (12289, 1, 4, 4),
                                       (16384, 1, 4, 4), (15000, 0, 16, 1)):  # fmt: skip
        found = rows.plan(777, n, 2, 1, DEFAULT_GPU, vectors)
        assert (found.num_warps, found.cluster) == (warps, cluster), (n, vectors)


def test_rows_that_would_not_all_fit_at_once_take_fewer_threads():
    """With two vectors, where registers leave a multiprocessor one block of 512 threads; with two arrays."""
    for rows_, n, streams, vectors, warps in ((264, 11008, 1, 2, 16), (264, 13824, 1, 2, 8), (528, 16384, 1, 2, 8),
                                              (264, 13824, 2, 1, 16), (130, 13824, 2, 1, 32)):  # fmt: skip
        found = rows.plan(rows_, n, 2, streams, DEFAULT_GPU, vectors, 64 if streams == 1 else 32)
        assert (found.num_warps, found.cluster) == (warps, 1), (rows_, n, streams)


def test_small_arrays_use_narrow_accesses():
    for rows_, n, block in ((1, 100, 256), (1, 14336, 256), (44, 896, 256), (130, 896, 512)):
        assert flat.plan(n, 2, DEFAULT_GPU, rows=rows_) == flat.FlatPlan(block, 8), (rows_, n)
    assert flat.plan(896, 2, DEFAULT_GPU, rows=777) == flat.FlatPlan(1024, 4)


def test_programs_that_wait_do_more_than_they_waste():
    with machine.launch_options(pdl=True):
        found = [flat.plan(n, 2, DEFAULT_GPU, rows=4096) for n in (5120, 6656, 1000, 896)]
        assert [(plan.block, plan.num_warps) for plan in found] == [(2048, 4), (2048, 4), (1024, 8), (1024, 8)]
        assert [plan.early for plan in found] == [True, True, False, False]
        assert "pdl" not in found[3].meta(4096, 896, DEFAULT_GPU) and "pdl" in found[0].meta(4096, 5120, DEFAULT_GPU)
        assert flat.plan(14336, 2, DEFAULT_GPU, rows=130) == flat.FlatPlan(2048, 8)
    assert [flat.plan(n, 2, DEFAULT_GPU, rows=4096).block for n in (5120, 6656, 1000)] == [1024] * 3


def test_short_rows_share_a_program():
    """As long as there are enough programs; not for rows that fill a block."""
    with machine.launch_options(pdl=True):
        found = [flat.plan(n, 2, DEFAULT_GPU, rows=rows_, whole_rows=True)
                 for rows_, n in ((4096, 512), (4096, 1024), (777, 512), (4096, 2048), (130, 512))]  # fmt: skip
        assert [plan.rows for plan in found] == [4, 2, 2, 1, 1]
    assert flat.plan(512, 2, DEFAULT_GPU, rows=4096, whole_rows=True) == flat.FlatPlan(512, 4, rows=2)
    assert flat.plan(512, 2, DEFAULT_GPU, rows=4096).rows == 1
    assert flat.FlatPlan(512, rows=4).grid(4095, 512) == (1024,)


def test_programs_that_are_resident_at_once_have_one_warp():
    assert flat.plan(1 << 20, 4, DEFAULT_GPU, accesses=2, many_arrays=True) == flat.FlatPlan(256, 1)
    assert flat.plan(1 << 21, 4, DEFAULT_GPU, accesses=2, many_arrays=True).num_warps == 4
    assert flat.plan(1 << 20, 4, DEFAULT_GPU, accesses=2).num_warps == 4


def test_programs_of_dependent_launches_do_more():
    """Each of them waits for the previous launch."""
    alone = flat.plan(1 << 24, 2, DEFAULT_GPU)
    with machine.launch_options(pdl=True):
        assert flat.plan(1 << 24, 2, DEFAULT_GPU).block == 2 * alone.block
        assert flat.plan(1 << 24, 4, DEFAULT_GPU, accesses=2, many_arrays=True) == flat.FlatPlan(1024, 4)


@pytest.mark.host
def test_machines_of_targets():
    assert machine.of_target("sm_90a") == DEFAULT_GPU
    assert machine.of_target("sm_80").largest_cluster == 1 and machine.of_target("sm_80").gpu
    with machine.planning_for(OLDER):
        assert machine.machine_of(np.zeros(1)) is OLDER
    assert machine.machine_of(np.zeros(1)) == CPU
    with knobs.scope(target="sm_90a"):
        assert machine.machine_of(np.zeros(1)) == DEFAULT_GPU
    assert machine.machine_of(np.zeros(1)) == CPU


def test_launch_options_reach_every_launch():
    assert machine.options(num_warps=4) == {"num_warps": 4}
    with machine.launch_options(pdl=True, num_warps=8):
        assert machine.options(num_warps=4) == {"num_warps": 8, "pdl": True}
    assert machine.options() == {}


PLANS = {
    "four rows": RowPlan(128, rows=4),
    "padded": RowPlan(256, rows=2),
    "blocks": RowPlan(32, loop=True),
    "one": RowPlan(128),
    "priority": RowPlan(128, streaming=True),
}
# Rows that fill the tiles, and rows that leave a remainder; the same for columns.
SHAPES = [(8, 128), (7, 128), (5, 100), (1, 33)]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_form_of_a_row_kernel(rng, shape, dtype, plan):
    x, residual = random(rng, shape, dtype), random(rng, shape, dtype)
    weight, bias = random(rng, shape[-1], dtype), random(rng, shape[-1], dtype)
    length = shape[-1]
    assert_close(softmax(x, plan=plan), reference.softmax(x), length=length)
    assert_close(rms_norm(x, weight, plan=plan), norm.rms_norm(x, weight), length=length)
    assert_close(layer_norm(x, weight, bias, plan=plan), norm.layer_norm(x, weight, bias), length=length)
    for round_sum in (True, False):
        y, total = residual_rms_norm(x, residual, weight, round_sum=round_sum, plan=plan)
        want_y, want_total = norm.residual_rms_norm(x, residual, weight, round_sum=round_sum)
        assert_close(y, want_y, length=length)
        assert_close(total, want_total)


@pytest.mark.parametrize("round_sum", [True, False])
def test_long_rows_in_place(rng, round_sum):
    """The outputs may be the inputs, even if a row is read twice."""
    x, residual, weight = random(rng, (3, 100)), random(rng, (3, 100)), random(rng, 100)
    want = norm.residual_rms_norm(x, residual, weight, round_sum=round_sum)
    residual_rms_norm(x, residual, weight, round_sum=round_sum, out=(x, residual), plan=PLANS["blocks"])
    assert_close(x, want[0], length=100)
    assert_close(residual, want[1])


def test_long_softmax_rows_of_infinities():
    x = np.full((2, 100), -np.inf, np.float32)
    x[0, 77] = -1000
    out = softmax(x, plan=PLANS["blocks"])
    assert (out[0] == (np.arange(100) == 77)).all() and np.isnan(out[1]).all()


def test_padding_sides():
    assert [tile_side(n, 512) for n in (1, 512, 513, 5003, 512 * 33)] == [512, 512, 1024, 5120, 512 * 34]

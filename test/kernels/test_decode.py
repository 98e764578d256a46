"""Decoding over contiguous and paged caches: any length, splits of a cache, several queries, windows."""

import re
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.attention import (
    decode,
    decode_attention,
    decode_quantized,
    decode_reference,
    quantized_cache,
    quantized_reference,
)
from kiln.kernels.attention.decode_configs import DecodePlan, candidates, decode_plan, even_splits
from kiln.kernels.attention.quantized import quantized_plan
from kiln.kernels.case import blank
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import CPU, DEFAULT_GPU, Machine, launch_options, of_target

LENGTHS = (1, 44, 63, 65, 127, 777, 4097)


def check(out, exact, v, length):
    """Weights are rounded to V's type before the second product: one more rounding, at the scale of V."""
    extra = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[str(v.dtype)]
    scale = np.abs(np.asarray(v, np.float64)).max(initial=0.0) * (1 + extra / 2.0**-24 / np.sqrt(max(length, 1)) / 8)
    assert_close(out, exact, length=max(length, 1), scale=scale)


def compare(q, k, v, lengths, **options):
    """Result and log-sum-exp against float64, and the same bits in a second run."""
    out, lse = decode_attention(q, k, v, lengths, return_lse=True, **options)
    options = {name: value for name, value in options.items() if name not in ("splits", "plan", "max_length")}
    exact, exact_lse = decode_reference.decode_attention(q, k, v, lengths, return_lse=True, **options)
    check(out, exact, v, int(max(lengths)))
    assert_close(lse, exact_lse, length=int(max(lengths)) + q.shape[-1])
    return out, lse


@pytest.mark.parametrize("splits", [None, 1, 3, 16])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [(1, 1), (8, 2), (7, 1)])
def test_decode(rng, heads, dtype, splits):
    q, k, v = random(rng, (4, heads[0], 64), dtype), *(random(rng, (4, 300, heads[1], 64), dtype) for _ in range(2))
    lengths = np.array([300, 1, 0, 137], np.int32)
    out, lse = compare(q, k, v, lengths, splits=splits)
    assert (out[2] == 0).all() and np.isneginf(lse[2]).all()
    again, lse_again = decode_attention(q, k, v, lengths, splits=splits, return_lse=True)
    assert out.tobytes() == again.tobytes() and lse.tobytes() == lse_again.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_lengths(rng, dtype):
    """One batch with sequences that do and do not fill a share, a step or a lane."""
    k, v = (random(rng, (len(LENGTHS), max(LENGTHS), 1, 32), dtype) for _ in range(2))
    compare(random(rng, (len(LENGTHS), 4, 32), dtype), k, v, np.array(LENGTHS, np.int64))


@pytest.mark.parametrize("page_size", [1, 16, 48])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pages(rng, page_size, dtype):
    pages = -(-200 // page_size)
    k, v = (random(rng, (4 * pages, page_size, 2, 32), dtype) for _ in range(2))
    table = rng.permutation(4 * pages)[: 3 * pages].reshape(3, pages).astype(np.int32)
    q, lengths = random(rng, (3, 6, 32), dtype), np.array([200, 5, 111], np.int64)
    compare(q, k, v, lengths, block_table=table, splits=2)


@pytest.mark.parametrize("page_size, dtype", [(16, "float16"), (48, "bfloat16"), (48, "float32")])
def test_lengths_of_pages(rng, page_size, dtype):
    """The same lengths in pages, of which each sequence has only those that it needs."""
    lengths = np.array(LENGTHS, np.int32)
    needed = -(-lengths // page_size)
    k, v = (random(rng, (needed.sum() + 1, page_size, 1, 32), dtype) for _ in range(2))
    there = np.arange(needed.max()) < needed[:, None]
    table = np.zeros(there.shape, np.int32)
    table[there] = rng.permutation(needed.sum()) + 1
    q = random(rng, (len(lengths), 4, 32), dtype)
    compare(q, k, v, lengths, block_table=table)


@pytest.mark.parametrize("window", [1000, 4090])
def test_queries_in_windows_of_long_sequences(rng, window):
    """Windows that begin and end within a step, of all queries together or each."""
    lengths = np.array(LENGTHS, np.int32)
    k, v = (random(rng, (len(lengths), max(LENGTHS), 1, 32), "float16") for _ in range(2))
    compare(random(rng, (len(lengths), 8, 2, 32), "float16"), k, v, lengths, window=window)


@pytest.mark.parametrize("window", [None, 1, 100])
@pytest.mark.parametrize("queries", [1, 8])
def test_queries_and_windows(rng, queries, window):
    """Query i sees the first length - queries + i + 1 tokens, or the last ``window`` of these; some see nothing."""
    q = random(rng, (5, queries, 4, 32))
    k, v = (random(rng, (5, 260, 2, 32)) for _ in range(2))
    lengths = np.array([260, 3, 65, 0, 129], np.int32)
    for splits in (1, 4):
        out, lse = compare(q, k, v, lengths, window=window, splits=splits)
    for i in range(max(0, queries - 3)):
        assert (out[1, i] == 0).all() and np.isneginf(lse[1, :, i]).all()


def test_lanes(rng):
    """Lanes have their own maxima: a lane that has seen nothing, or only smaller values, changes nothing."""
    q, k, v = random(rng, (3, 4, 32)), *(random(rng, (3, 300, 2, 32)) for _ in range(2))
    k[:, 100:] *= 30
    for lanes, splits in ((2, 1), (4, 3)):
        plan = DecodePlan(2, 64, 32, 32, 2, lanes=lanes, splits=splits)
        compare(q, k, v, np.array([300, 5, 70], np.int32), plan=plan)


def test_blocks_of_rows(rng):
    """More rows than a tile has: 20 heads of a group and three queries in tiles of 16 rows."""
    q, k, v = random(rng, (2, 3, 40, 16)), *(random(rng, (2, 70, 2, 16)) for _ in range(2))
    plan = DecodePlan(16, 32, 16, 16, 20, queries=3, splits=2, least=1)
    assert plan.blocks == 4
    compare(q, k, v, np.array([70, 33], np.int32), plan=plan)


def test_nan_values_in_a_cache(rng):
    """Values after a sequence's length are not read; values before it matter."""
    q, k, v = random(rng, (2, 2, 16)), *(random(rng, (2, 100, 1, 16)) for _ in range(2))
    k[:, 60:], v[:, 60:] = np.nan, np.inf
    lengths = np.array([60, 59], np.int32)
    compare(q, k, v, lengths)
    v[1, 7, 0, 3] = np.nan
    out = decode_attention(q, k, v, lengths)
    assert np.isnan(out[1, :, 3]).all() and np.isfinite(out[0]).all() and np.isnan(out).sum() == 2


def test_plans_fill_the_machine():
    """Shares follow from processors, sequences and lengths; no list of shapes."""
    workers = DEFAULT_GPU.processors
    for batch, length in ((1, 4096), (1, 32768), (8, 4096), (8, 32768), (64, 512), (64, 4096), (3, 100000)):
        plan = decode_plan(batch, 8, 4, 1, 128, 2, length, DEFAULT_GPU, dependent=False)
        programs = batch * 8 * min(plan.splits, -(-length // plan.least))
        waves = programs / workers
        # A half of the processors is enough where each has four slots.
        enough = 0.45 if plan.splits == 1 and plan.stages == 4 else 0.72
        assert waves / np.ceil(waves) >= enough or programs * 2 * plan.least > batch * 8 * length
        assert plan.lanes == plan.num_warps and plan.rows == 16
    assert decode_plan(1, 8, 4, 1, 128, 2, 40, DEFAULT_GPU).splits == 1
    assert even_splits(512, 264) == 1 and even_splits(330, 264) == 3


@pytest.mark.host  # strides over memory that does not exist
def test_pages_beyond_32_bits_are_refused():
    k = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (1, 4, 1, 8), (0, 4 << 30, 0, 4))
    q, table, length = np.zeros((1, 1, 8), np.float32), np.zeros((1, 1), np.int32), np.ones(1, np.int32)
    with pytest.raises(ValueError, match="k: expected pages whose tokens are fewer than 2\\^31 elements apart"):
        decode_attention(q, k, k, length, block_table=table)


# Pages of 16 and of 64 tokens, us: programs of three slots in lanes, by whether pages are looked up ahead; None: two
# slots, with which three of them run at once on a processor (simple from 2048 tokens on).
WAVES = {
    (64, 256): {None: (20.04, 19.72), True: (20.69, 20.04), False: (19.82, 20.03)},
    (64, 512): {None: (35.44, 35.17), True: (35.61, 34.85), False: (34.80, 34.87)},
    (64, 1024): {None: (67.75, 67.62), True: (64.65, 64.27), False: (64.05, 64.15)},
    (64, 4096): {None: (245.3, 261.5), True: (242.7, 241.9), False: (245.9, 241.4)},
    (128, 256): {None: (35.61, 34.99), True: (37.29, 35.91), False: (36.00, 35.95)},
    (128, 512): {None: (67.07, 66.95), True: (67.04, 65.99), False: (65.59, 66.07)},
    (128, 1024): {None: (131.6, 132.1), True: (125.8, 127.0), False: (125.2, 126.4)},
}


@pytest.mark.parametrize(("batch", "length"), WAVES)
def test_waves_of_programs_that_look_up_pages(batch, length):
    plan = decode_plan(batch, 8, 4, 1, 128, 2, length, DEFAULT_GPU, paged=True)
    assert plan.splits == 1 and plan.early and not plan.known
    assert plan.stages == 3 and plan.schedule == "lanes" if length > 256 else plan.stages == 2 and plan.ahead
    times = WAVES[batch, length]
    best = [min(each) for each in zip(*times.values(), strict=True)]
    found = times[None if plan.stages == 2 else plan.ahead]
    assert all(one <= 1.012 * least for one, least in zip(found, best, strict=True))


@pytest.mark.parametrize(("batch", "length", "stages"), [(32, 4096, 2), (45, 4096, 2), (64, 4096, 3)])
def test_one_wave_of_programs_has_two_slots(batch, length, stages):
    """256 programs of 32 sequences take 119.6 us with two slots, 120.5 with three; those of 45 fill two waves of three
    each, and would not fill two of two."""
    plan = decode_plan(batch, 8, 4, 1, 128, 2, length, DEFAULT_GPU, splits=1, paged=True)
    assert plan.stages == stages


def test_plans_of_pages():
    """Programs whose launches begin early know the pages of all steps in advance, if these are few. Others look them up
    ahead, where they share a sequence or fill several waves, and run in pairs, if shares are long or few."""

    def plan(batch, length, paged=True, dependent=None, target=DEFAULT_GPU):
        return decode_plan(batch, 8, 4, 1, 128, 2, length, target, paged=paged, dependent=dependent)

    for batch, length, known in ((1, 512, 1), (1, 4096, 4), (8, 512, 4), (16, 512, 8), (1, 16384, 16), (8, 4096, 32)):
        pages, contiguous = plan(batch, length), plan(batch, length, False)
        assert pages.known == known and not pages.ahead and not contiguous.known
        assert (pages.stages, pages.apart) == (contiguous.stages, contiguous.apart)
        assert pages.splits == (2 if (batch, length) == (8, 4096) else contiguous.splits)
    # Measured, us: 34.5 and known 34.9.
    assert plan(1, 32768).known == 0 and plan(1, 32768).ahead and plan(1, 32768).apart
    assert plan(8, 32768).splits == 2 * plan(8, 32768, False).splits and plan(8, 32768).ahead
    assert plan(64, 256).ahead and not plan(64, 256).known
    for late in ({"dependent": False}, {"target": of_target("sm_86")}):
        assert not plan(1, 4096, **late).known and plan(1, 4096, **late).ahead
        assert not plan(16, 256, **late).ahead and plan(8, 512, **late).splits > plan(8, 512, False, **late).splits
    # Tiles of 64 rows have fewer lanes, and no ring of four slots.
    wide = decode_plan(8, 8, 8, 8, 128, 2, 4096, DEFAULT_GPU, paged=True)
    assert (
        not wide.known
        and wide.splits == decode_plan(8, 8, 8, 8, 128, 2, 4096, DEFAULT_GPU, paged=True, dependent=False).splits
    )
    late = plan(1, 32768, dependent=False)
    assert late.splits == 32, "33 would not take fewer steps each"
    late = plan(8, 512, dependent=False)
    assert late.splits == late.merged == 4, "no more parts are loaded than there are"
    assert plan(1, 4096).evened(1, 8, DEFAULT_GPU).known == 0, "shares may have any length"


def test_pages_are_known_of_all_steps_or_none():
    """Whatever a given plan says: a program would otherwise read the page of an earlier step."""
    plan = DecodePlan(16, 64, 32, 32, 2, splits=2, stages=3, known=2, in_turns=True)
    assert plan.of_call(256, None).known == 2 and plan.of_call(256, 20).known == 2
    assert plan.of_call(257, None).known == 0, "a third step of the first program"
    assert plan.of_call(None, None).known == 0, "no pages"
    assert replace(plan, in_turns=False).of_call(100, None).known == 0, "shares that begin anywhere"
    assert replace(plan, in_turns=False, splits=1).of_call(128, None).known == 2


@pytest.mark.parametrize("splits, known", [(1, 7), (3, 3), (3, 2)])
@pytest.mark.parametrize("page_size", [1, 16, 48, 128])
def test_pages_known_in_advance(rng, page_size, splits, known):
    """Of seven steps for all programs, and of too few for the longest sequence."""
    pages = -(-220 // page_size)
    k, v = (random(rng, (3 * pages, page_size, 2, 32)) for _ in range(2))
    table = rng.permutation(3 * pages).reshape(3, pages).astype(np.int32)
    plan = DecodePlan(8, 32, 32, 32, 3, splits=splits, least=32, known=known, in_turns=splits > 1)
    lengths = np.array([220, 5, 111], np.int32)
    for window in (None, 60):
        compare(random(rng, (3, 6, 32)), k, v, lengths, block_table=table, plan=plan, max_length=220, window=window)


def test_merged_parts_of_equally_long_shares():
    evened = decode_plan(8, 8, 4, 1, 128, 2, 512, DEFAULT_GPU, dependent=False).evened(8, 8, DEFAULT_GPU)
    assert evened.merged == 16 and evened.stages == 3, "two programs fit on a processor"


@pytest.mark.parametrize(
    ("batch", "heads", "group", "queries", "length", "paged", "stages"),
    [
        (1, 8, 1, 1, 2048, False, 2),  # measured: 6.88 us, with three slots 7.23; two steps for each share
        (1, 8, 4, 1, 2048, False, 2),  # 6.94, 7.53
        (1, 8, 1, 8, 2048, False, 2),  # 7.25, 8.32
        (1, 8, 4, 1, 4096, False, 4),  # 8.35, with three slots 8.71; four steps
        (8, 8, 4, 1, 512, False, 4),  # 7.74 by half of the processors; two shares with three slots 8.33, with four 8.19
        (8, 8, 4, 1, 4096, False, 4),  # 33.70, with six slots 36.2
        (64, 8, 4, 1, 512, False, 2),  # 34.8, 35.8; four programs for each processor
        (64, 8, 4, 1, 4096, False, 2),  # 238.8, 243.3
        (16, 8, 4, 1, 1024, False, 3),  # 19.5, 21.2; one for each
        (24, 8, 4, 1, 4096, False, 3),  # 97.8, 101.4; two for each, of half a sequence
        (64, 8, 4, 1, 4096, True, 2),  # pages, looked up ahead: 246.3, with three slots and not ahead 246.9
        (64, 8, 4, 1, 512, True, 2),  # 36.4, 36.9
        (32, 8, 4, 1, 1024, True, 2),  # 34.8, 36.0
        (1, 8, 4, 1, 2048, True, 2),  # 7.27, 7.38
        (1, 8, 4, 1, 4096, True, 2),  # 8.93, with three slots 9.11; four steps
        (2, 8, 4, 1, 4096, True, 3),  # 12.49, with two slots 12.77; eight steps
        (8, 8, 4, 1, 512, True, 2),  # 8.66, 9.01 with half as many programs
        (8, 8, 4, 1, 4096, True, 2),  # 36.1, 36.8; two programs for each processor
    ],
)
def test_slots(batch, heads, group, queries, length, paged, stages):
    plan = decode_plan(batch, heads, group, queries, 128, 2, length, DEFAULT_GPU, paged=paged, dependent=False)
    assert plan.stages == stages


@pytest.mark.parametrize(
    ("batch", "group", "size", "length", "paged", "schedule", "rows"),
    [
        (1, 4, 128, 4096, False, "lanes", 16),  # measured: 8.35 us, simple 8.87, with eight rows 8.44
        (1, 4, 128, 512, False, "lanes", 8),  # 4.50, 4.69, with sixteen rows 4.77
        (1, 1, 128, 4096, False, "lanes", 8),  # 8.13, 8.61, 8.91
        (1, 8, 128, 512, False, "lanes", 16),  # as with 4096 tokens, where eight rows take 10.6 instead of 9.1
        (8, 4, 128, 32768, False, "simple", 16),  # 238, 242
        (48, 4, 128, 4096, False, "lanes", 16),  # 181, 190: all fit at once
        (64, 4, 128, 512, False, "simple", 16),  # 34.1, lanes 34.4
        (64, 4, 128, 4096, False, "simple", 16),  # 239, 249
        (64, 4, 128, 512, True, "lanes", 16),  # 35.7, simple 36.4
        (64, 4, 128, 4096, True, "simple", 16),  # 245, lanes 254
        (1, 4, 256, 4096, False, "simple", 16),  # a lane for two warps
    ],
)
def test_who_copies(batch, group, size, length, paged, schedule, rows):
    plan = decode_plan(batch, 8, group, 1, size, 2, length, DEFAULT_GPU, paged=paged, dependent=False)
    assert (plan.schedule, plan.rows) == (schedule, rows)
    assert plan.options(DEFAULT_GPU)["schedule"] == schedule


def test_rings_of_launches_that_begin_early():
    """Programs that take more than half of a processor's memory are not put in pairs on some of them."""
    for paged in (False, True):
        for length in (1024, 4096):
            early, late = (
                decode_plan(1, 8, 4, 1, 128, 2, length, DEFAULT_GPU, paged=paged, dependent=each)
                for each in (True, False)
            )
            assert early.apart and early.stages * 2 * early.tokens * early.side * 2 > 114 << 10
            assert late.stages <= early.stages and not late.apart
    # A single step of half as many programs as processors: those of two launches fit (measured: 3.62 and 3.67 us).
    few = decode_plan(1, 8, 4, 1, 128, 2, 512, DEFAULT_GPU, dependent=True)
    assert few.stages == 2 and not few.apart
    # More programs than processors.
    many = decode_plan(64, 8, 4, 1, 128, 2, 4096, DEFAULT_GPU, dependent=True)
    assert many.stages == 2 and not many.apart
    # Heads so small that many slots would be needed, and targets whose launches do not begin early.
    small = decode_plan(1, 8, 4, 1, 64, 2, 512, DEFAULT_GPU, dependent=True)
    older = decode_plan(8, 8, 4, 1, 128, 2, 512, DEFAULT_GPU._replace(target="sm_80"), dependent=True)
    assert small.stages == 2 and older.splits == 1 and not small.apart and not older.apart
    # The call takes the plan that its launch options ask for.
    q, cache, lengths = blank((1, 32, 128), "float16"), blank((1, 1024, 8, 128), "float16"), blank((1,), "int32")
    with launch_options(pdl=True):
        (launch,) = launches_of(lambda: decode_attention(q, cache, cache, lengths), DEFAULT_GPU)
    assert launch.options["stages"] == 4 and launch.options["pdl"] and launch.options["single_wave"]


def test_which_launches_begin_early():
    """Those whose processors have one program each, or no room for more. Programs in pairs leave room for a third: some
    processors would get it, and others have one (measured: eight bits, 1 x 32768, 26.8 instead of 21.7 us)."""

    def is_early(batch, length, bits=16, dependent=None, **how):
        plan = decode_plan(batch, 8, 4, 1, 128, 2, length, DEFAULT_GPU, dependent=dependent, **how)
        if bits < 16:
            plan = quantized_plan(batch, 8, 4, 1, 128, bits, length, DEFAULT_GPU, dependent=dependent, **how)
        assert plan.options(DEFAULT_GPU).get("pdl", False) == plan.early
        return plan.early

    for batch, length in ((1, 512), (1, 4096), (1, 32768), (8, 512), (8, 4096), (8, 32768), (64, 512), (64, 4096)):
        assert is_early(batch, length) and not is_early(batch, length, dependent=False)
    for batch, length in ((1, 512), (1, 4096), (64, 512), (64, 4096)):
        assert is_early(batch, length, 8) and is_early(batch, length, 4)
    for batch, length in ((1, 32768), (8, 4096)):
        assert is_early(batch, length, 8)
        assert not is_early(batch, length, 4) and is_early(batch, length, 4, dependent=True)
    for batch, length in ((1, 512), (1, 4096), (1, 32768), (8, 512), (8, 4096), (64, 512), (64, 4096)):
        assert is_early(batch, length, paged=True)
    assert not is_early(8, 32768, paged=True) and not is_early(32, 4096) and not is_early(8, 32768, 8)
    assert is_early(8, 32768, 4), "three programs for each, and no room for a fourth"
    assert not decode_plan(1, 8, 4, 1, 64, 2, 4096, DEFAULT_GPU).early, "not timed"
    assert not decode_plan(1, 8, 4, 1, 128, 2, 4096, DEFAULT_GPU).evened(1, 8, DEFAULT_GPU).early
    assert not is_early(17, 32768, 4), "two for each processor, and a few more"


def test_rings_of_codes_that_begin_early():
    """With eight bits one program for each processor, if four slots keep those of the next launch away. Measured, us:
    1 x 4096 5.57 instead of 6.29, 1 x 32768 20.2 instead of 20.9."""

    def plan(batch, length, bits=8, dependent=None, target=DEFAULT_GPU, **how):
        return quantized_plan(batch, 8, 4, 1, 128, bits, length, target, dependent=dependent, **how)

    for batch, length in ((1, 2048), (1, 4096), (1, 32768), (4, 512), (8, 1024), (8, 4096)):
        one = plan(batch, length)
        assert one.apart and one.stages == 4 and one.options(DEFAULT_GPU)["single_wave"]
        assert 100 <= 8 * batch * one.splits <= 132
    # Up to 512 tokens for each of 33 to 66 heads are read by one program: 8 x 256 3.43 and 4.11, 8 x 512 5.02 and 5.41,
    # 5 x 512 4.66 and 5.27; but 8 x 768 6.33 and 6.26, 4 x 512 4.41 and 4.22.
    for batch, length in ((8, 256), (8, 512), (7, 512), (5, 512)):
        one = plan(batch, length)
        assert (one.splits, one.stages, one.apart, one.schedule) == (1, 4, True, "lanes")
    assert plan(8, 768).splits == 2 and plan(4, 512).splits == 4 and plan(25, 512).splits == 2
    assert plan(8, 512, dependent=False).splits == plan(8, 512, bits=4).splits == 2
    # One share for each head is not divided among four slots' programs: two or three for each processor, as before.
    assert plan(9, 4096).splits == 3 and plan(16, 4096).splits == 2 and not plan(9, 4096).apart
    for other in (plan(1, 1024), plan(8, 32768), plan(64, 512), plan(1, 4096, bits=4), plan(1, 4096, paged=True),
                  plan(1, 4096, dependent=False), plan(1, 4096, target=of_target("sm_120a"))):  # fmt: skip
        assert not other.apart and other.stages < 4
    assert plan(1, 32768, dependent=False).splits == 32


def test_candidates_that_begin_early():
    """What holds for the default's programs need not hold for fewer or more of them."""
    plans = candidates(1, 8, 4, 1, 128, 2, 4096, DEFAULT_GPU)
    assert plans[0] == decode_plan(1, 8, 4, 1, 128, 2, 4096, DEFAULT_GPU) and plans[0].apart and plans[0].asks
    for plan in plans:
        programs, ring = 8 * plan.splits, plan.stages * 4 * plan.tokens * plan.side
        assert plan.early == (programs <= 132 or programs >= 330)
        assert plan.apart == (programs <= 132 and ring > 114 << 10) and plan.asks == plan.early
    assert len({plan.apart for plan in plans}) == len({plan.early for plan in plans}) == 2
    for batch, length in ((1, 4096), (8, 4096), (1, 32768)):
        of_pages = candidates(batch, 8, 4, 1, 128, 2, length, DEFAULT_GPU, paged=True)
        assert not any(plan.known and plan.ahead for plan in of_pages)
        assert all(plan.known * plan.stride >= length for plan in of_pages if plan.known)


def test_what_launches_that_begin_early_ask_for():
    """The first step of keys and values, and the queries, for which neither a length nor the launch before is waited
    for. Pages that are then in the table are asked for, and read again after the wait."""
    q, cache, lengths = blank((1, 32, 128), "float16"), blank((1, 512, 8, 128), "float16"), blank((1,), "int32")
    pages, table = blank((32, 16, 8, 128), "float16"), blank((1, 32), "int32")
    of_eight, of_four = (quantized_cache(1, 512, 8, 128, bits, q) for bits in (8, 4))
    recent = {"k_recent": of_four.k_recent, "v_recent": of_four.v_recent}
    calls = {
        "contiguous": (3, lambda: decode_attention(q, cache, cache, lengths)),
        # Codes and what gives them their meaning.
        "eight bits": (5, lambda: decode_quantized(q, *of_eight[:4], lengths)),
        "four bits": (5, lambda: decode_quantized(q, *of_four[:4], lengths, **recent)),
        # Lines of a head are 8 or 16 KB apart.
        "pages": (5, lambda: decode_attention(q, pages, pages, lengths, block_table=table)),
        # Where these begin follows from the length.
        "window": (0, lambda: decode_attention(q, cache, cache, lengths, window=256)),
        "uneven": (0, lambda: decode_attention(q, cache, cache, lengths, uneven=True)),
    }
    for name, (count, call) in calls.items():
        with launch_options(**({"pdl": True} if name == "uneven" else {})):
            (launch,) = launches_of(call, DEFAULT_GPU)
        ptx = launch.compile("sm_90a", to="ptx").output
        before, after = ptx.split("griddepcontrol.wait;")
        assert before.count("prefetch.global.L2") == count and "prefetch" not in after, name
        assert before.count("ld.volatile.global") == (name == "pages") and not re.search(r"ld\.global", before), name
        assert "cp.async" in after, name
    # Where more programs wait than run at once, asking takes bandwidth from these.
    for crowd, count in ((quantized_plan(64, 8, 4, 1, 128, 8, 512, DEFAULT_GPU), 0),
                         (decode_plan(64, 8, 4, 1, 128, 2, 512, DEFAULT_GPU, paged=True), 0),
                         (quantized_plan(64, 8, 4, 1, 128, 4, 512, DEFAULT_GPU), 1),
                         (decode_plan(64, 8, 4, 1, 128, 2, 512, DEFAULT_GPU), 1)):  # fmt: skip
        assert crowd.early and crowd.asks == count
    # Other launches begin when the one before has ended.
    (uneven,) = launches_of(calls["uneven"][1], DEFAULT_GPU)
    with launch_options(pdl=False):
        (late,) = launches_of(calls["contiguous"][1], DEFAULT_GPU)
    (older,) = launches_of(calls["contiguous"][1], of_target("sm_80"))
    for launch, target in ((uneven, "sm_90a"), (late, "sm_90a"), (older, "sm_80")):
        ptx = launch.compile(target, to="ptx").output
        assert "prefetch" not in ptx and "griddepcontrol" not in ptx


def test_half_of_the_processors():
    """As fast as all, without handing in, but not for long sequences. Pages are looked up by all."""

    def splits(batch, length, dependent=False, paged=False):
        return decode_plan(batch, 8, 4, 1, 128, 2, length, DEFAULT_GPU, paged=paged, dependent=dependent).splits

    assert splits(8, 512) == splits(8, 4096) == 1
    assert decode_plan(8, 8, 4, 1, 128, 2, 512, DEFAULT_GPU, dependent=False).stages == 4 and splits(8, 128) == 2
    assert splits(8, 32768) == splits(6, 512) == 2
    assert splits(8, 512, paged=True) == 4
    # Measured, early, 8 x 1024 10.08 and 10.44 us, 8 x 4096 32.8 and 33.5, 8 x 8192 62.3 and 63.4; pages 37.1 and 34.4.
    assert splits(8, 1024, dependent=True) == splits(8, 8192, dependent=True) == 1
    assert splits(8, 32768, dependent=True) == splits(8, 4096, dependent=True, paged=True) == 2
    # A third is as fast for few tokens: 8 x 128 3.06 and 3.94, 7 x 512 6.00 and 6.47, 5 x 512 5.70 and 5.89; 5 x 1024
    # 9.30 and 8.35, 4 x 512 5.16 and 4.84.
    assert splits(8, 128, dependent=True) == splits(7, 512, dependent=True) == splits(5, 512, dependent=True) == 1
    assert splits(5, 1024, dependent=True) == 3 and splits(4, 512, dependent=True) == 4
    assert splits(25, 512, dependent=True) == 3, "more heads than processors"
    # Only where four slots fit.
    small = DEFAULT_GPU._replace(target="sm_89")
    plan = decode_plan(8, 8, 4, 1, 128, 2, 512, small, dependent=True)
    assert decode_plan(8, 8, 4, 1, 128, 2, 512, small).splits == plan.splits == 2
    assert plan.stages == 3 and not plan.apart


@pytest.mark.parametrize("paged", [False, True])
def test_programs_of_eight_warps(paged):
    """Where one program has few steps, and half of the processors have one: 8 x 384 5.19 us, of four warps 5.45, pages
    5.46, two programs 5.85; but 8 x 128 3.37 and 3.06, 8 x 1024 by pages 11.1 and 10.9, 7 x 512 6.35 and 6.00."""

    def warps(batch, length, **how):
        return decode_plan(
            batch, 8, 4, 1, 128, 2, length, how.pop("machine", DEFAULT_GPU), paged=paged, **how
        ).num_warps

    plan = decode_plan(8, 8, 4, 1, 128, 2, 384, DEFAULT_GPU, paged=paged)
    assert (plan.num_warps, plan.lanes, plan.tokens, plan.stages, plan.splits) == (8, 8, 128, 3, 1)
    assert plan.apart and plan.known == (3 if paged else 0)
    assert warps(8, 512) == warps(8, 256) == 8
    assert warps(8, 128) == warps(8, 1024) == warps(7, 512) == warps(8, 512, dependent=False) == 4
    assert warps(8, 512, splits=1) == warps(8, 512, machine=DEFAULT_GPU._replace(target="sm_120a")) == 4
    # Slots of elements of one byte leave room for a second program.
    assert decode_plan(8, 8, 4, 1, 128, 1, 512, DEFAULT_GPU, paged=paged).num_warps == 4


def test_errors(rng):
    q, k, lengths = random(rng, (4, 6, 16)), random(rng, (4, 8, 3, 16)), np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="lengths"):
        decode_attention(q, k, k, np.zeros(5, np.int32))
    with pytest.raises(ValueError, match="window: expected at least one"):
        decode_attention(q, k, k, lengths, window=0)
    with pytest.raises(ValueError, match="divides q's 6"):
        decode_attention(q, random(rng, (4, 8, 4, 16)), random(rng, (4, 8, 4, 16)), lengths)
    assert decode_plan(1, 2, 2, 1, 64, 4, 100, CPU).stages == 0


def test_heads_far_apart(rng):
    """A cache stored as heads, then tokens, viewed as tokens, then heads: heads are 2^30 elements apart."""
    k, v = (random(rng, (1, 40, 3, 16)) for _ in range(2))
    q, lengths = random(rng, (1, 3, 16)), np.array([40], np.int32)
    room = np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=((2 << 30) + 40 * 16,))
    far = np.lib.stride_tricks.as_strided(room, (1, 40, 3, 16), (0, 64, 4 << 30, 4))
    far[...] = k
    assert (decode_attention(q, far, v, lengths) == decode_attention(q, k, v, lengths)).all()


def sparse(shape, strides, dtype="float32"):
    """An array whose elements are far apart, in a file that takes room only where it is written."""
    item = np.dtype(dtype).itemsize
    last = sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True))
    room = np.memmap(tempfile.TemporaryFile(), dtype, "w+", shape=(last + 1,))
    return np.lib.stride_tricks.as_strided(room, shape, [stride * item for stride in strides])


@pytest.mark.parametrize("what", ["sequences", "tokens", "pages", "tokens of pages"])
def test_caches_of_more_than_32_bits(rng, what):
    """Elements 2^31 and more from the first: of other sequences, tokens or pages, or of both."""
    shape = (3, 64, 2, 16) if "pages" in what else (3, 90, 2, 16)
    strides = {
        "sequences": (5 << 28, 32, 16, 1),
        "tokens": (32, 3 << 24, 16, 1),
        "pages": (5 << 28, 32, 16, 1),
        "tokens of pages": (5 << 28, 33 << 19, 16, 1),
    }[what]
    k, v = (random(rng, shape) for _ in range(2))
    far = sparse(shape, strides)
    assert sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True)) > 1 << 31
    far[...] = k
    options = {"block_table": np.array([[2, 1], [0, 2]], np.int32)} if "pages" in what else {}
    lengths = np.array([128, 90] if options else [90, 90, 64], np.int32)
    q = random(rng, (len(lengths), 4, 16))
    got, wanted = (decode_attention(q, x, v, lengths, **options) for x in (far, k))
    assert (got == wanted).all() and np.isfinite(got).all()


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_uneven_lengths(rng, bits, queries):
    """One long sequence among short ones and empty ones: right, and the long one is cut into more shares than an even
    cut gives it."""
    lengths = np.array([5, 0, 1900, 64, 1, 0, 130], np.int32)
    k, v = (random(rng, (7, 2048, 2, 32), "float16") for _ in range(2))
    q = random(rng, (7, queries, 4, 32), "float16")
    q = q[:, 0] if queries == 1 else q
    if bits == 16:
        out, lse = decode_attention(q, k, v, lengths, uneven=True, return_lse=True)
    else:
        cache = quantized_reference.quantized_cache(k, v, lengths, bits, 2048)
        recent = {"k_recent": cache[4], "v_recent": cache[5]}
        out, lse = decode_quantized(q, *cache[:4], lengths, uneven=True, return_lse=True, **recent)
        k, v = quantized_reference.decoded_cache(*cache, lengths)
    exact, exact_lse = decode_reference.decode_attention(q, k, v, lengths, return_lse=True)
    assert_close(out, exact, length=1900, scale=2.0**11)
    assert_close(lse, exact_lse, length=1900, scale=2.0**9)


def test_uneven_lengths_leave_counters_as_they_were(rng, monkeypatch):
    """The last sequence has the most shares, and more programs are launched than there are shares."""
    made = []
    zeros = decode.zeros
    monkeypatch.setattr(decode, "zeros", lambda count, like: made.append(zeros(count, like)) or made[-1])
    q, k = random(rng, (3, 4, 32), "float16"), random(rng, (3, 1920, 2, 32), "float16")
    decode_attention(q, k, k, np.array([5, 0, 1900], np.int32), uneven=True)
    assert len(made) == 1 and not made[0].any()


def test_shares_of_uneven_lengths_are_as_long():
    """At most two per processor, plus one per sequence."""
    h200 = Machine(132, largest_cluster=16)
    plan = decode_plan(64, 8, 4, 1, 128, 2, 32768, h200)
    even = plan.evened(64, 8, h200)
    assert plan.splits == 1 and even.splits == 33 and even.grid(64, 8) == (8, 97)
    assert even.shares(512, 64) == 8 * 97 and plan.shares(512, 64) == 512


def test_uneven_lengths_in_a_window_are_refused(rng):
    q, k = random(rng, (2, 4, 32), "float16"), random(rng, (2, 64, 2, 32), "float16")
    with pytest.raises(ValueError, match="uneven: expected no window"):
        decode_attention(q, k, k, np.array([3, 4], np.int32), window=8, uneven=True)

"""Products whose tiles are cut along K: stream-K, and splits whose parts are added by the last part's program.

Operands are small integers where every order of summation gives the same result: then a part that is lost, counted
twice or added to another tile shows, and so does a term that is applied twice. They are normal numbers where the order
must matter. Each test names the change to the kernel that it would catch.
"""

import itertools

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.errors import ArgumentError
from kiln.kernels.gemm import configs, kernel, matmul
from kiln.kernels.gemm.configs import GemmPlan
from kiln.kernels.gemm.operands import Cut
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import CPU

pytestmark = pytest.mark.host
PLANS = {
    "workers": GemmPlan(32, 32, 32, workers=4),
    "all tiles shared": GemmPlan(32, 32, 32, workers=7, waves=99),
    "ragged wave alone": GemmPlan(32, 32, 32, workers=4, waves=1),
    "more workers than tiles": GemmPlan(32, 32, 32, workers=70, waves=1),
    "more workers than steps": GemmPlan(64, 64, 64, workers=300, waves=1),
    "few rows": GemmPlan(16, 64, 32, workers=7),
    "by CUDA cores": GemmPlan(32, 32, 32, "fma", workers=11, described=False),
    "splits": GemmPlan(32, 32, 32, splits=3, reduce="last"),
    "more splits than steps": GemmPlan(32, 32, 64, splits=40, reduce="last"),
    "splits, few rows": GemmPlan(16, 64, 32, splits=2, reduce="last", described=False),
}
SHAPES = [(130, 65, 777), (65, 130, 100), (7, 63, 300), (1, 1, 130), (96, 64, 31)]


def integers(rng, shape, dtype="float32"):
    return rng.integers(-3, 4, shape).astype(dtype)


def normal(rng, shape):
    return rng.standard_normal(shape, dtype=np.float32)


@kiln.jit
def tell_shares(found, steps, cut: Cut, PLAN: kl.constexpr):
    told = kernel.share_of(kl.program_id(0), steps, cut, PLAN)
    for i in kl.static_range(6):
        kl.store(found + kl.program_id(0) * 6 + i, told[i])


@pytest.mark.parametrize("workers, waves", [(1, 1), (3, 2), (7, 1), (7, 2), (8, 3), (50, 1)])
def test_shares_are_equal_and_cover_every_step_once(workers, waves):
    """Catches off-by-one errors at the ends of a share or tile: a step done twice or never, or a part that is not
    counted."""
    most_parts = 0
    for tiles, of_tile in itertools.product((1, 5, 13, 22, 48), (1, 3, 16, 37)):
        plan = GemmPlan(32, 32, 32, workers=workers, waves=waves)
        shared = configs.shares(plan, tiles, 32 * of_tile - 5)
        if not shared.plan.workers:
            assert tiles % workers == 0 and shared.programs == tiles
            continue
        found = np.full((shared.programs, 6), -1, np.int32)
        cut = Cut(None, None, shared.whole, shared.share, shared.steps)
        tell_shares[(shared.programs,)](found, of_tile, cut, plan)
        times, parts_of, slots, done = np.zeros((tiles, of_tile), int), {}, {}, np.zeros(workers, int)
        for program, (tile, first, last, part, parts, slot) in enumerate(found.tolist()):
            if parts == 0:
                assert first >= last
                continue
            assert 0 <= first < last <= of_tile
            times[tile, first:last] += 1
            parts_of.setdefault(tile, []).append((first, part, parts))
            if program < shared.whole:
                assert (tile, parts) == (program, 1)
            else:
                done[(program - shared.whole) % workers] += last - first
            if parts > 1:
                assert slots.setdefault(slot + part, (tile, part)) == (tile, part), "a slot of two parts"
                assert slot + part < shared.slots
        assert (times == 1).all()
        for told in parts_of.values():
            assert [(part, parts) for _, part, parts in sorted(told)] == [(i, len(told)) for i in range(len(told))]
        # Whole waves come first; the rest is dealt out in equal shares, the last of which may be smaller.
        assert shared.whole == max(0, tiles // workers - waves + 1) * workers
        full, rest = divmod((tiles - shared.whole) * of_tile, shared.share)
        assert sorted(done, reverse=True) == [*[shared.share] * full, *[rest] * (rest > 0), *[0] * workers][:workers]
        most_parts = max(most_parts, *(len(told) for told in parts_of.values()))
    assert workers < 7 or most_parts >= 3


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_terms_are_applied_once(rng, name, shape):
    """Catches terms applied to each part, or to none. c is also the result, which shows a part that writes before all
    are there."""
    m, n, k = shape
    a, b, c, bias, residual = (integers(rng, side) for side in ((m, k), (k, n), (m, n), (n,), (m, n)))
    exact = 2 * (a.astype(np.float64) @ b) + 3 * c + bias + residual
    out = matmul(a, b, alpha=2.0, beta=3.0, c=c, bias=bias, residual=residual, out=c, plan=PLANS[name])
    assert out is c and (out == exact).all()


@pytest.mark.parametrize("name", ["workers", "more workers than tiles", "splits"])
def test_batches(rng, name):
    """Catches a tile that goes to another matrix of the batch, or parts counted with another matrix's."""
    a, b = integers(rng, (3, 70, 100), "int8"), integers(rng, (3, 100, 40), "int8")
    assert (matmul(a, b, plan=PLANS[name]) == a.astype(np.int32) @ b.astype(np.int32)).all()


@pytest.mark.parametrize(
    "name", ["more workers than tiles", "more workers than steps", "splits", "more splits than steps"]
)
def test_parts_of_float16_sums_are_added_in_float32(name):
    """Catches rounded partial sums: 4097 is not a float16, though each part's 1s are."""
    a, b = np.ones((130, 4097), np.float16), np.ones((4097, 65), np.float16)
    assert (matmul(a, b, accumulator="f16", out_dtype="float32", plan=PLANS[name]) == 4097).all()


@kiln.jit
def matmul_in_order(order, a, b, out, terms, cut, EPILOGUE: kl.constexpr, FORMULA: kl.constexpr, PLAN: kl.constexpr):
    program = kl.load(order + kl.program_id(0))
    kernel.matmul_program(program, a, b, out, terms, cut, EPILOGUE, FORMULA, PLAN)


class Reordered:
    """The kernel with its programs reordered; the counters are kept."""

    def __init__(self, permute):
        self.permute, self.arrived = permute, None

    def __getitem__(self, grid):
        order = np.ascontiguousarray(self.permute(np.arange(grid[0], dtype=np.int32)))

        def launch(a, b, out, terms, cut, *rest, **options):
            self.arrived = cut.arrived
            matmul_in_order[grid](order, a, b, out, terms, cut, *rest, **options)

        return launch


@pytest.mark.parametrize("name", PLANS)
def test_no_program_waits(name):
    """Catches a loop that waits for another program to do its part: that program may come later, or never."""
    a, b = np.empty((130, 300), np.float32), np.empty((300, 65), np.float32)
    (launch,) = launches_of(lambda: matmul(a, b, plan=PLANS[name]), CPU)
    text = launch.compile("cpu", to="tile").output
    assert "tile.atomic_rmw" in text and "scf.while" not in text


@pytest.mark.cpu
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shape", [(130, 65, 777), (65, 130, 100), (3, 65, 66, 100)], ids=str)
def test_any_order_of_programs_gives_the_same_bits(rng, monkeypatch, name, shape):
    """Catches sums in arrival order, a counter shared by two tiles, or one that is not left at zero. One thread runs
    the programs one after another, also backwards."""
    *batch, m, n, k = shape
    a, b, bias = normal(rng, (*batch, m, k)), normal(rng, (*batch, k, n)), normal(rng, (n,))
    tiles = kiln.cdiv(m, PLANS[name].m) * kiln.cdiv(n, PLANS[name].n) * (batch or [1])[0]
    assert configs.shares(PLANS[name], tiles, k).plan.hands_in
    want = matmul(a, b, bias=bias, epilogue="gelu", plan=PLANS[name])
    exact = matmul(a, b, bias=bias, epilogue="gelu")
    assert np.linalg.norm(want - exact) <= 4 * np.sqrt(k) * 2.0**-24 * np.linalg.norm(exact)
    shuffles = [lambda x: x, lambda x: x[::-1], *(np.random.default_rng(seed).permutation for seed in range(3))]
    for threads, permute in [*itertools.product((1,), shuffles), (4, shuffles[2]), (4, shuffles[0])]:
        reordered = Reordered(permute)
        monkeypatch.setattr(kernel, "matmul_kernel", reordered)
        with kiln.knobs.scope(num_threads=threads):
            got = matmul(a, b, bias=bias, epilogue="gelu", plan=PLANS[name])
        assert got.tobytes() == want.tobytes()
        assert (reordered.arrived == 0).all()


def test_a_workspace_is_ready_for_the_next_launch(rng, monkeypatch):
    """Catches a counter that is not reset, so that no program would be last the next time, and sums that are assumed to
    be zero initially."""
    kept = np.zeros(4096, np.int32)
    monkeypatch.setattr(kernel, "zeros", lambda count, like: kept[:count])
    monkeypatch.setattr(kernel, "empty", lambda spec, like: np.full(spec.shape, np.nan, spec.dtype))
    a, b = integers(rng, (130, 300)), integers(rng, (300, 65))
    for name in (*PLANS, *PLANS):
        assert (matmul(a, b, plan=PLANS[name]) == a @ b).all()
        assert (kept == 0).all()


def test_no_part_is_outside_the_workspace(rng):
    """Catches one slot too few or one part too many: accesses are checked against what was allocated."""
    a, b = integers(rng, (130, 300)), integers(rng, (300, 65))
    for name, plan in PLANS.items():
        with kiln.knobs.scope(check="bounds"):
            assert (matmul(a, b, plan=plan) == a @ b).all(), name


@pytest.mark.parametrize("tiles, k", [(12, 300), (5, 0)])
def test_whole_waves_are_not_cut(tiles, k):
    """Four whole waves, or nothing to sum: the plain kernel runs."""
    shared = configs.shares(GemmPlan(32, 32, 32, workers=3), tiles, k)
    if k:
        assert shared.plan == GemmPlan(32, 32, 32) and shared[1:] == (12, 0, None, None, None)
    assert not shared.plan.hands_in
    a = np.ones((96, k), np.float32)
    assert (matmul(a, a.T, plan=GemmPlan(32, 32, 32, workers=3)) == k).all()


@pytest.mark.parametrize("change", [{"splits": 2}, {"workers": -1}, {"waves": 0}, {"reduce": "first", "splits": 2,
                                                                                   "workers": 0}])  # fmt: skip
def test_invalid_plans_are_rejected(rng, change):
    import dataclasses

    plan = dataclasses.replace(GemmPlan(32, 32, 32, workers=3), **change)
    with pytest.raises(ArgumentError, match="plan: expected"):
        matmul(normal(rng, (70, 90)), normal(rng, (90, 40)), plan=plan)


def test_more_steps_than_are_counted_are_refused():
    """Shares would overflow: the last two waves never have so many steps, but all tiles may."""
    assert configs.shares(GemmPlan(64, 64, 32, workers=132), 1 << 20, 1 << 16).plan.hands_in
    with pytest.raises(ArgumentError, match="expected fewer than 2\\^30 steps"):
        configs.shares(GemmPlan(64, 64, 32, workers=132, waves=1 << 20), 1 << 20, 1 << 16)

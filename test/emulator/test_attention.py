"""Attention by its schedule: against float64, in every order of warps and copies, over edges of every kind."""

from dataclasses import replace

import numpy as np
import pytest
from harness import assert_close, counters_of, random
from kiln.kernels import attention
from kiln.kernels.attention import flex_attention, kernel, mods, reference
from kiln.kernels.attention.configs import AttentionPlan

# The plan of long sequences; few programs have others.
PLAN = AttentionPlan(128, 128, "attention", parts=4)


@pytest.fixture
def in_orders(in_orders):
    """Runs in every order, with warpgroup products on fetched data; the order must not affect results."""

    def run(function):
        results = in_orders(function, {"wgmma", "cp", "mbarrier"})
        first = results[0]
        for other in results[1:]:
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True)), "the order shows"
        return first

    return run


def check(
    rng,
    in_orders,
    q_tokens,
    k_tokens,
    heads=1,
    k_heads=1,
    size=64,
    dtype="float16",
    causal=False,
    batch=1,
    rise=0,
    plan=PLAN,
    **options,
):
    q = random(rng, (batch, q_tokens, heads, size), dtype)
    k, v = (random(rng, (batch, k_tokens, k_heads, size), dtype) for _ in range(2))
    if rise:
        q[..., 0] = np.where(np.arange(q_tokens) % 3 == 0, np.sqrt(size), 0)[None, :, None]
        k[..., 0] = (rise * (np.arange(k_tokens) // 64))[None, :, None]
    y, lse = in_orders(lambda: attention(q, k, v, causal=causal, return_lse=True, plan=plan, **options))
    exact, exact_lse = reference.attention(q, k, v, causal=causal, return_lse=True, **options)
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    assert np.abs(np.asarray(y, np.float64) - exact).max() <= 4 * unit * np.abs(np.asarray(v, np.float64)).max()
    assert_close(lse, exact_lse, length=k_tokens + size)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [(128, 128), (65, 2), (127, 44), (130, 777), (300, 300), (400, 130)], ids=str)
def test_lengths(rng, in_orders, tokens, causal):
    """One step and many, whole blocks and not; queries that see no key."""
    check(rng, in_orders, *tokens, causal=causal)


@pytest.mark.parametrize("size", [64, 80, 96, 128])
def test_sizes(rng, in_orders, size):
    check(rng, in_orders, 128, 300, size=size, causal=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_heads_share_keys(rng, in_orders, dtype):
    check(rng, in_orders, 130, 130, heads=4, k_heads=2, dtype=dtype, batch=2, causal=True)


@pytest.mark.parametrize("rise", [0.5, 4, 30])
def test_scores_that_rise(rng, in_orders, rise):
    """Every third row rises by `rise` every 64 keys: sums are rescaled rarely, sometimes, and always."""
    check(rng, in_orders, 130, 520, size=128, rise=rise)


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, m=192, consumers=3, n=64, in_turn=True)], ids=["two", "in turn"])
@pytest.mark.parametrize("options", [{}, {"softcap": 40.0}, {"sinks": np.asarray([3.0], np.float32)}], ids=str)
@pytest.mark.parametrize("rise", [2, 15, 400])
def test_one_warp_mends_its_guess(rng, in_orders, emulated, plan, options, rise):
    """The scores of sixteen rows rise every 128 keys: to weights that are still exact, to larger ones than float16 has,
    and to infinity. Other warps go on meanwhile."""
    q, k, v = random(rng, (1, plan.m, 1, 64), "float16"), *(random(rng, (1, 520, 1, 64), "float16") for _ in range(2))
    q[..., 0] = np.where(np.arange(plan.m) // 16 == 5, 8, 0)[None, :, None]
    k[..., 0] = (rise * (np.arange(520) // 128))[None, :, None]
    y, lse = in_orders(lambda: attention(q, k, v, return_lse=True, plan=plan, **options))
    exact, exact_lse = reference.attention(q, k, v, return_lse=True, **options)
    assert np.abs(np.asarray(y, np.float64) - exact).max() <= 4 * 2.0**-11 * np.abs(np.asarray(v, np.float64)).max()
    assert_close(lse, exact_lse, length=600)
    assert {"vote", "mma"} <= emulated.used


@pytest.mark.parametrize("causal", [False, True])
def test_distances(rng, in_orders, causal):
    """Slopes count tokens, as built-in terms and in a function."""
    q, k, v = random(rng, (1, 130, 2, 64), "float16"), *(random(rng, (1, 300, 2, 64), "float16") for _ in range(2))
    slopes = np.array([0.5, 0.03125], np.float32)
    exact = reference.attention(q, k, v, alibi_slopes=slopes, causal=causal)
    scale = np.abs(np.asarray(v, np.float64)).max()
    (y,) = in_orders(lambda: (attention(q, k, v, alibi_slopes=slopes, causal=causal, plan=PLAN),))
    assert np.abs(np.asarray(y, np.float64) - exact).max() <= 4 * 2.0**-11 * scale
    if not causal:
        # Here the distance counts from the first key, not from the last.
        apart = np.abs(np.arange(130)[:, None] - np.arange(300))
        exact = reference.attention(q, k, v, score_mod=lambda score: score - slopes[None, :, None, None] * apart)
        heads = (x.swapaxes(1, 2).copy() for x in (q, k, v))
        query, key, value = heads
        (y,) = in_orders(lambda: (flex_attention(query, key, value, score_mod=mods.alibi, args=(slopes,), plan=PLAN),))
        assert np.abs(np.asarray(y, np.float64).swapaxes(1, 2) - exact).max() <= 4 * 2.0**-11 * scale


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [2, 3])
def test_groups_that_issue_in_turn(rng, in_orders, emulated, groups, causal):
    """Two blocks run four programs each, of which some have no steps in turn; no group waits for a turn that never
    comes, and none comes to a barrier twice."""
    plan = replace(PLAN, m=64 * groups, consumers=groups, n=64, in_turn=True)
    with emulated.few_blocks(2):
        check(rng, in_orders, 64 * groups + 30, 200, heads=4, k_heads=2, causal=causal, plan=plan)
        check(rng, in_orders, 130, 60, heads=4, k_heads=2, causal=causal, plan=plan)
    assert {"bar"} <= emulated.used


# ---- keys shared among programs --------------------------------------------------------------------------------------
ONE_GROUP = replace(PLAN, m=64, consumers=1)


@pytest.fixture
def counters(monkeypatch):
    with counters_of(kernel, monkeypatch) as made:
        yield made


@pytest.mark.parametrize("blocks", [None, 2])
@pytest.mark.parametrize("plan", [replace(PLAN, splits=3), replace(ONE_GROUP, splits=2)], ids=["two groups", "one"])
def test_shares_of_keys(rng, in_orders, emulated, counters, plan, blocks):
    """Each program in a block of its own, in any order, and several in one block, one after the other: first all first
    shares, so that the last to arrive changes."""
    sinks = np.asarray([0.5, -1.0], np.float32)
    options = {"heads": 2, "size": 64, "causal": True, "plan": plan, "sinks": sinks}
    with emulated.any_program_first() if blocks is None else emulated.few_blocks(blocks):
        check(rng, in_orders, 200, 300, **options)
    assert len(counters) == 3  # a launch in each order


@pytest.mark.parametrize("tokens", [(65, 777), (127, 44)], ids=str)
def test_shares_of_other_lengths(rng, in_orders, counters, tokens):
    """Windows, shares without a key, and queries that see none."""
    check(rng, in_orders, *tokens, causal=True, plan=replace(PLAN, n=32, splits=8))
    check(rng, in_orders, *tokens, window=(100, 30), softcap=5.0, plan=replace(PLAN, splits=2))


@pytest.mark.parametrize(
    "plan", [AttentionPlan(64, 64, splits=3), replace(ONE_GROUP, splits=2)], ids=["simple", "in place"]
)
def test_shares_without_roles(rng, emulated, counters, plan):
    """By a simple plan, and where results share memory with queries, which rules out roles."""
    both = random(rng, (1, 200, 4, 64), "float16")
    q, out = both[:, :, :2], both[:, :, 2:]
    k, v = (random(rng, (1, 300, 1, 64), "float16") for _ in range(2))
    exact = reference.attention(q.copy(), k, v, causal=True)
    emulated.used.clear()
    with emulated.any_program_first():
        attention(q, k, v, causal=True, plan=plan, out=out)
    assert "mbarrier" not in emulated.used
    assert np.abs(np.asarray(out, np.float64) - exact).max() <= 4 * 2.0**-11 * np.abs(np.asarray(v, np.float64)).max()


def test_few_programs_share_keys_by_default(rng, in_orders, counters):
    check(rng, in_orders, 130, 1100, plan=None)


@pytest.mark.parametrize(
    "plan",
    [replace(PLAN, early=True, in_turn=True), replace(PLAN, early=True, splits=3), replace(ONE_GROUP, early=True)],
    ids=["in turn", "shares", "one group"],
)
def test_launches_that_begin_early(rng, in_orders, emulated, plan):
    """Each role waits for the launch before: the emulator faults if one accesses memory before that."""
    emulated.used.clear()
    check(rng, in_orders, 130, 300, heads=2, causal=True, plan=plan)
    assert "griddepcontrol" in emulated.used

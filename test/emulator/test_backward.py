"""Attention's gradients by their schedule: against float64, in every order of warps and copies."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from harness import random
from kiln.kernels.attention import (
    attention_backward,
    attention_varlen_backward,
    create_block_mask,
    flex_attention_backward,
    reference,
)
from kiln.kernels.attention.backward_configs import BackwardPlan


@pytest.fixture
def in_orders(in_orders):
    """Runs in every order, with warpgroup products on fetched data; the order must not affect results."""

    def run(function, alike=True):
        results = in_orders(function, {"wgmma", "cp", "mbarrier"})
        first = results[0]
        for other in results[1:] if alike else ():
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True)), "the order shows"
        return first if alike else results

    return run


def check(rng, in_orders, q_tokens, k_tokens, heads=1, k_heads=1, size=64, dtype="float16", batch=1, **options):
    q, dout = (random(rng, (batch, q_tokens, heads, size), dtype) for _ in range(2))
    k, v = (random(rng, (batch, k_tokens, k_heads, size), dtype) for _ in range(2))
    y, lse = reference.attention(q, k, v, return_lse=True, **options)
    y, lse = y.astype(q.dtype), lse.astype(np.float32)
    exact = reference.attention_backward(q, k, v, dout, **options)
    got = in_orders(lambda: attention_backward(q, k, v, y, lse, dout, **options))
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    for one, other in zip(got, exact, strict=True):
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 8 * unit * max(1.0, np.abs(other).max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [(128, 128), (65, 2), (130, 300), (300, 130)], ids=str)
def test_lengths(rng, in_orders, tokens, causal):
    """One step and many, whole blocks and not; queries that see no key."""
    check(rng, in_orders, *tokens, causal=causal)


@pytest.mark.parametrize("size", [80, 128])
def test_sizes(rng, in_orders, size):
    check(rng, in_orders, 128, 200, size=size, causal=True)


def test_heads_share_keys(rng, in_orders):
    check(rng, in_orders, 130, 70, heads=2, k_heads=1, dtype="bfloat16", batch=2)


def test_windows(rng, in_orders):
    """Queries that see part of a block, before and after those that see all of it, have separate loops."""
    check(rng, in_orders, 260, 260, window=(195, 10), softcap=2.0)


@pytest.mark.parametrize("size", [96, 128])
def test_windows_of_wide_heads(rng, in_orders, size):
    """With 128 elements, of three quarters as many queries per step."""
    check(rng, in_orders, 160, 260, size=size, window=(70, 10))


def test_three_groups(rng, in_orders):
    """The plan for long heads of 64: 192 keys by 48 queries per step, and 192 queries by 80 keys."""
    options = {"plan": BackwardPlan(48, 192, 192, 80, "streams", consumers=3, dq_consumers=3, rows=128, atomics=False)}
    q, dout = (random(rng, (1, 200, 1, 64), "float16") for _ in range(2))
    k, v = (random(rng, (1, 250, 1, 64), "float16") for _ in range(2))
    y, lse = reference.attention(q, k, v, return_lse=True)
    y, lse = y.astype(q.dtype), lse.astype(np.float32)
    got = in_orders(lambda: attention_backward(q, k, v, y, lse, dout, **options))
    for one, other in zip(got, reference.attention_backward(q, k, v, dout), strict=True):
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 8 * 2.0**-11 * max(1.0, np.abs(other).max())


def check_plan(rng, in_orders, tokens, size, plan, causal, deterministic, window=None):
    """Two heads of queries share one of keys; sums of programs in any order need not be alike."""
    q, dout = (random(rng, (1, tokens[0], 2, size), "float16") for _ in range(2))
    k, v = (random(rng, (1, tokens[1], 1, size), "float16") for _ in range(2))
    seen = {"causal": causal, "window": window}
    y, lse = reference.attention(q, k, v, return_lse=True, **seen)
    y, lse = y.astype(q.dtype), lse.astype(np.float32)
    options = seen | {"deterministic": deterministic, "plan": plan}
    runs = in_orders(lambda: attention_backward(q, k, v, y, lse, dout, **options), alike=False)
    if deterministic:
        assert all(a.tobytes() == b.tobytes() for run in runs[1:] for a, b in zip(runs[0], run, strict=True))
    exact = reference.attention_backward(q, k, v, dout, **seen)
    for got in runs:
        for one, other in zip(got, exact, strict=True):
            assert np.abs(np.asarray(one, np.float64) - other).max() <= 8 * 2.0**-11 * max(1.0, np.abs(other).max())


@pytest.mark.parametrize(
    ("size", "queries", "causal"),
    [(128, 64, False), (128, 64, True), (64, 96, True), pytest.param(64, 64, False, marks=pytest.mark.fuzz)],
)
def test_dq_beside_dk(rng, in_orders, size, queries, causal):
    """A product's right operand passes through memory; the copy engine adds its result, in the order of programs. With
    heads of 64, each group has columns of that product."""
    plan = BackwardPlan(queries, 128, 128, 64, "streams", rows=64)
    assert plan.parts_turned(size)
    check_plan(rng, in_orders, (130, 200), size, plan, causal=causal, deterministic=False)


@pytest.mark.parametrize("tokens", [(130, 300), (300, 130)], ids=str)
@pytest.mark.parametrize(
    ("size", "queries", "rotated", "causal", "right"),
    [(64, 128, True, True, None), (128, 64, True, False, None), (64, 64, False, False, 70),
     pytest.param(128, 64, True, True, None, marks=pytest.mark.fuzz)],
)  # fmt: skip
def test_dq_in_turns(rng, in_orders, size, queries, rotated, causal, right, tokens):
    """Blocks of keys add to dq one after the other, whatever the order in which they get there. Two heads of queries;
    some of them, or of the keys, see none of the other side."""
    window = None if right is None else (-1, right)
    plan = BackwardPlan(queries, 128, 128, 64, "streams", rows=64, rotated=rotated, in_turns=True, together=2)
    check_plan(rng, in_orders, tokens, size, plan, causal=causal, deterministic=True, window=window)


@pytest.mark.parametrize("tokens", [(330, 330), (130, 300)], ids=str)
@pytest.mark.parametrize(("size", "queries", "deterministic"), [(64, 128, True), (64, 128, False), (128, 64, True)])
def test_windows_beside_dk(rng, in_orders, size, queries, deterministic, tokens):
    """Queries are walked in three loops, of which the one without a mask is rotated. What is left of a window's end
    belongs to earlier blocks of keys, whose turns come later."""
    plan = BackwardPlan(queries, 128, 128, 64, "streams", rows=64, rotated=True, in_turns=deterministic, together=2)
    check_plan(rng, in_orders, tokens, size, plan, causal=True, deterministic=deterministic, window=(140, 0))


@pytest.mark.parametrize(("size", "rotated"), [(64, True), (128, False)])
def test_windows_to_both_sides_beside_dk(rng, in_orders, size, rotated):
    """The plans for sums in any order. Some queries see no key, and some keys are seen by none."""
    plan = BackwardPlan(64, 128, 128, 64, "streams", rows=64, rotated=rotated)
    check_plan(rng, in_orders, (330, 200), size, plan, causal=False, deterministic=False, window=(140, 30))


@pytest.mark.parametrize("tokens", [(64, 130), (200, 128), (130, 300)], ids=str)
@pytest.mark.parametrize(
    ("size", "queries", "deterministic", "causal"),
    [(128, 64, False, False), (64, 128, False, False), (64, 64, False, True), (64, 128, True, True),
     pytest.param(128, 64, False, True, marks=pytest.mark.fuzz),
     pytest.param(128, 64, True, True, marks=pytest.mark.fuzz)],
)  # fmt: skip
def test_rotated_loops(rng, in_orders, size, queries, deterministic, causal, tokens):
    """A step's scores begin under the step before, whose part of dq is made in the next; one step, few and many, none
    for some blocks of keys."""
    plan = BackwardPlan(queries, 128, 128, 64, "streams", rows=64, rotated=True)
    check_plan(rng, in_orders, tokens, size, plan, causal=causal, deterministic=deterministic)


def test_a_bias_that_does_not_fit_the_schedule(rng, emulated):
    """Read element by element, it takes more registers than a group has: the products are not scheduled."""
    q, dout = (random(rng, (1, 70, 1, 64), "float16") for _ in range(2))
    k, v = (random(rng, (1, 77, 1, 64), "float16") for _ in range(2))
    bias = random(rng, (1, 1, 70, 77))
    y, lse = reference.attention(q, k, v, return_lse=True, bias=bias)
    y, lse = y.astype(q.dtype), lse.astype(np.float32)
    exact = reference.attention_backward(q, k, v, dout, bias=bias, dbias=True)
    got = attention_backward(q, k, v, y, lse, dout, bias=bias, dbias=True)
    for one, other in zip(got, exact, strict=True):
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 8 * 2.0**-11 * max(1.0, np.abs(other).max())


@kiln.jit
def near(batch, head, q, kv, document):
    return (kl.load(document + kv) == kl.load(document + q)) & (kv <= q + 80) & (q - kv <= 100)


@pytest.mark.parametrize("size", [64, pytest.param(128, marks=pytest.mark.fuzz)])
def test_blocks_visible_under_a_mask(rng, in_orders, size):
    """Both roles read the next blocks from its lists; queries that see no key, blocks that no query sees."""
    q, dout = (random(rng, (1, 2, 130, size), "float16") for _ in range(2))
    k, v = (random(rng, (1, 1, 260, size), "float16") for _ in range(2))
    document = np.arange(260, dtype=np.int32) // 110
    i, j = np.ogrid[:130, :260]
    exact = (document[j] == document[i]) & (j <= i + 80) & (i - j <= 100)
    shapes = [x.swapaxes(1, 2) for x in (q, k, v, dout)]
    y, lse = reference.attention(*shapes[:3], return_lse=True, mask=exact)
    y, lse = np.ascontiguousarray(y.swapaxes(1, 2)).astype(q.dtype), lse.astype(np.float32)
    mask = create_block_mask(near, None, None, 130, 260, args=(document,))
    got = in_orders(lambda: flex_attention_backward(q, k, v, y, lse, dout, block_mask=mask, enable_gqa=True))
    for one, other in zip(got, reference.attention_backward(*shapes, mask=exact), strict=True):
        other = other.swapaxes(1, 2)
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 8 * 2.0**-11 * max(1.0, np.abs(other).max())


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.fuzz)])
def test_concatenated_sequences(rng, in_orders, causal):
    """Both roles read where sequences begin; what lies after one, here NaN, is neither read nor written."""
    starts_q, starts_k = np.array([0, 70, 70, 200], np.int32), np.array([0, 33, 40, 170], np.int32)
    q, dout = (random(rng, (210, 2, 64), "float16") for _ in range(2))
    k, v = (random(rng, (180, 1, 64), "float16") for _ in range(2))
    y, lse = reference.attention_varlen(q, k, v, starts_q, starts_k, return_lse=True, causal=causal)
    exact = reference.attention_varlen_backward(q, k, v, dout, starts_q, starts_k, causal=causal)
    y, lse = y.astype(q.dtype), lse.astype(np.float32)
    q[200:] = k[170:] = v[170:] = dout[200:] = np.nan
    given = starts_q, starts_k, 130, 130
    plan = BackwardPlan(64, 128, 128, 64, "streams", rows=64, atomics=False)
    got = in_orders(
        lambda: [
            x[:n]
            for x, n in zip(
                attention_varlen_backward(q, k, v, y, lse, dout, *given, causal=causal, plan=plan),
                (200, 170, 170),
                strict=True,
            )
        ]
    )
    for one, other in zip(got, exact, strict=True):
        other = other[: len(one)]
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 8 * 2.0**-11 * max(1.0, np.abs(other).max())

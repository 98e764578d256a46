"""Attention: any length, grouped heads, causal alignment, log-sum-exp."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.attention import attention, reference
from kiln.kernels.attention.configs import AttentionPlan, Lengths, order, prefill_plan
from kiln.kernels.machine import DEFAULT_GPU


def operands(rng, q_tokens, k_tokens, heads, k_heads, size, dtype="float32", batch=2):
    q = random(rng, (batch, q_tokens, heads, size), dtype)
    k, v = (random(rng, (batch, k_tokens, k_heads, size), dtype) for _ in range(2))
    return q, k, v


def check(out, exact, v, length):
    """Weights are rounded to V's type before the second product: one more rounding, at the scale of V."""
    extra = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[str(v.dtype)]
    scale = np.abs(np.asarray(v, np.float64)).max(initial=0.0) * (1 + extra / 2.0**-24 / np.sqrt(max(length, 1)) / 8)
    assert_close(out, exact, length=max(length, 1), scale=scale)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [(1, 1), (7, 7), (64, 64), (65, 130), (130, 65), (1, 97), (100, 1)])
def test_attention(rng, tokens, dtype, causal):
    q, k, v = operands(rng, *tokens, 4, 2, 32, dtype)
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    exact, exact_lse = reference.attention(q, k, v, causal=causal, return_lse=True)
    check(out, exact, v, tokens[1])
    assert_close(lse, exact_lse, length=tokens[1] + 32)


@pytest.mark.parametrize("heads", [(1, 1), (6, 6), (8, 2), (7, 1)])
@pytest.mark.parametrize("size", [16, 40, 64, 128])
def test_heads_and_sizes(rng, heads, size):
    q, k, v = operands(rng, 33, 70, *heads, size)
    check(attention(q, k, v, softmax_scale=0.3), reference.attention(q, k, v, softmax_scale=0.3), v, 70)


@pytest.mark.parametrize("scale", [-0.3, 0.0, -4.0])
@pytest.mark.parametrize("causal", [False, True])
def test_scales_that_turn_or_drop_scores(rng, scale, causal):
    q, k, v = operands(rng, 33, 70, 4, 2, 32)
    out, lse = attention(q, k, v, causal=causal, softmax_scale=scale, return_lse=True)
    exact, exact_lse = reference.attention(q, k, v, causal=causal, softmax_scale=scale, return_lse=True)
    check(out, exact, v, 70)
    assert_close(lse, exact_lse, length=70 + 32, scale=max(1.0, np.abs(exact_lse).max()))


def test_views_of_fused_qkv(rng):
    qkv = random(rng, (2, 50, 12, 32))
    q, k, v = qkv[:, :, :8], qkv[:, :, 8:10], qkv[:, :, 10:]
    check(attention(q, k, v, causal=True), reference.attention(q, k, v, causal=True), v, 50)


@pytest.mark.parametrize("tokens", [(0, 5), (5, 0)])
def test_empty(rng, tokens):
    q, k, v = operands(rng, *tokens, 2, 2, 16)
    out, lse = attention(q, k, v, return_lse=True)
    assert (out == 0).all() and np.isneginf(lse).all() and out.shape == q.shape


def test_errors(rng):
    q, k, v = operands(rng, 4, 4, 6, 4, 16)
    with pytest.raises(ValueError, match="divides q's 6"):
        attention(q, k, v)


@pytest.mark.parametrize(("together", "around"), [(1, 0), (3, 0), (2, 5), (16, 7), (16, 1), (16, 1000)])
def test_programs_in_any_order_are_each_run_once(rng, together, around):
    q, k, v = operands(rng, 70, 70, 8, 2, 32)
    plan = AttentionPlan(16, 32, together=together, around=around)
    out = np.full_like(q, np.nan)
    attention(q, k, v, causal=True, plan=plan, out=out)
    assert np.array_equal(out, attention(q, k, v, causal=True, plan=AttentionPlan(16, 32)))


def longest(tokens, tile, heads, together, around, processors):
    """Steps of the busiest processor, counted program by program; a program's overhead is 1.6 of them."""
    blocks = -(-tokens // tile[0])
    count = blocks * heads
    load = [0.0] * processors
    for place in range(count):
        row, column = divmod(place, processors)
        width = min(processors, count - row * processors)
        number = row * processors + (width - 1 - column if around and row % 2 else column)
        first = number // (together * blocks) * together
        block = blocks - 1 - number % (together * blocks) // min(heads - first, together)
        load[column] += -(-min(tokens, (block + 1) * tile[0]) // tile[1]) * tile[1] / 128 + 1.6
    return max(load)


@pytest.mark.parametrize(
    ("tokens", "tile", "heads", "row_bytes", "before"),
    [(1024, (128, 128), 256, 512, 50), (4096, (128, 80), 32, 1024, 48), (16384, (128, 128), 16, 512, 16),
     (4096, (192, 128), 128, 256, 48), (1000, (128, 128), 300, 512, 48)],
)  # fmt: skip
def test_causal_programs_fall_to_processors_evenly(tokens, tile, heads, row_bytes, before):
    _, together, around = order(Lengths(tokens, tokens, tokens), tile, heads, 1, row_bytes, DEFAULT_GPU)
    processors = DEFAULT_GPU.processors
    assert around in (0, processors) and 1 <= together <= heads
    chosen = longest(tokens, tile, heads, together, around, processors)
    even = longest(tokens, tile, heads, 1, 0, 1) / processors
    assert even <= chosen <= 1.05 * even
    assert chosen < longest(tokens, tile, heads, min(before, heads), 0, processors)


def test_programs_share_reads_of_keys_that_exceed_the_cache():
    """Taking all 256 heads in turn would balance as well, but read 600 MB where 134 are enough."""
    together = order(Lengths(1024, 1024, 1024), (128, 128), 256, 1, 512, DEFAULT_GPU).together
    assert together * 1024 * 512 <= DEFAULT_GPU.l2_bytes // 2


# Microseconds on an H200 at its power limit, by `together`/`around`, of causal heads in turn: 16384 queries in all.
MEASURED_ORDERS = {
    (64, 4096): "1/132 655 2/132 651 4/132 666 8/132 655 12/132 677 16/132 659 32/132 682 "
    "1/0 1032 2/0 1040 4/0 832 8/0 748 12/0 858 16/0 704 32/0 677",
    (64, 16384): "1/132 2646 2/132 2486 4/132 2360 8/132 2311 12/132 2542 16/132 2338 32/132 2464 "
    "1/0 2441 2/0 2399 4/0 2413 8/0 2386 12/0 2475 16/0 2462 32/0 2446",
    (128, 4096): "1/132 496 2/132 506 3/132 524 4/132 613 6/132 514 8/132 667 16/132 578 "
    "1/0 527 2/0 524 3/0 546 4/0 663 6/0 515 8/0 597 16/0 555",
    (128, 16384): "1/132 2228 2/132 2453 3/132 1917 4/132 2064 6/132 1993 8/132 1927 16/132 1872 "
    "1/0 2440 2/0 2131 3/0 2096 4/0 2048 6/0 2008 8/0 2001 16/0 2012",
}


@pytest.mark.parametrize(("size", "tokens"), MEASURED_ORDERS)
def test_the_order_is_the_fastest_measured(size, tokens):
    """Or within 2 % of it: also where the processors are evenly busy but the keys of too many heads leave the L2."""
    words = MEASURED_ORDERS[size, tokens].split()
    times = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    tile, heads = (192 if size == 64 else 128, 128), 16384 // tokens * 2048 // size
    _, together, around = order(Lengths(tokens, tokens, tokens), tile, heads, 1, 4 * size, DEFAULT_GPU)
    assert times[f"{together}/{around}"] <= 1.02 * min(times.values())


@pytest.mark.parametrize(
    ("tokens", "heads", "causal", "terms", "tile"),
    [
        (1024, 512, False, "", (192, 128)),  # measured: 307 us, where (128, 128) has 330, (192, 96) 325
        (4096, 128, False, "", (192, 128)),  # 1037, 1171, 1069
        (1024, 512, True, "", (128, 128)),  # 203, (192, 128) 235, (192, 96) 234
        (4096, 128, True, "", (128, 128)),  # 588, 610, 609
        (16384, 32, True, "", (192, 128)),  # 2085, 2131, 2128
        (8192, 64, True, "tilt", (192, 80)),  # 394 TFLOPS, (128, 128) 346; with 96 keys it spills
        (2048, 8, False, "", (128, 128)),  # each processor has one program: the shorter one
    ],
)
def test_three_groups_if_the_longest_processor_gains(tokens, heads, causal, terms, tile):
    plan = prefill_plan(tokens, tokens, (64, 64), 2, True, causal, DEFAULT_GPU, terms=terms, heads=heads)
    assert (plan.m, plan.n) == tile and plan.consumers == tile[0] // 64

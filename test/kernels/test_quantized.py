"""Decoding over quantised caches: attention over the decoded values, for lengths around blocks, groups and steps."""

import pathlib
import re
import tempfile

import numpy as np
import pytest
from harness import assert_close, random
from kiln.kernels.attention import (
    append_quantized,
    decode_quantized,
    decode_reference,
    quantized_cache,
    quantized_reference,
)
from kiln.kernels.attention.decode_configs import DecodePlan
from kiln.kernels.attention.quantized import quantized_plan
from kiln.kernels.machine import CPU, DEFAULT_GPU


def caches(rng, batch, tokens, heads, size, dtype="float16"):
    return (random(rng, (batch, tokens, heads, size), dtype) for _ in range(2))


def compare(q, k, v, lengths, bits, **options):
    tokens = -(-max(lengths) // 128) * 128 or 128
    cache = quantized_reference.quantized_cache(k, v, lengths, bits, tokens)
    out, lse = decode_quantized(
        q, *cache[:4], np.asarray(lengths, np.int32), k_recent=cache[4], v_recent=cache[5], return_lse=True, **options
    )
    means = quantized_reference.decoded_cache(*cache, lengths)
    exact, exact_lse = decode_reference.decode_attention(q, *means, lengths, return_lse=True)
    # Weights, and keys of four bits, are rounded to float16.
    assert_close(out, exact, length=max(lengths), scale=2.0**10)
    assert_close(lse, exact_lse, length=q.shape[-1], scale=2.0**9)
    return out


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("bits", [8, 4])
def test_lengths(rng, bits, size):
    lengths = [300, 1, 0, 31, 32, 33, 127, 129]
    k, v = caches(rng, len(lengths), 300, 2, size)
    out = compare(random(rng, (len(lengths), 4, size), "float16"), k, v, lengths, bits)
    assert (out[2] == 0).all()


@pytest.mark.parametrize("rows", [None, 8])
@pytest.mark.parametrize("bits", [8, 4])
def test_long_lengths(rng, bits, rows):
    """By rows and by columns, over many steps and shares."""
    lengths = [4097, 1, 44, 63, 65, 127, 777]
    k, v = caches(rng, len(lengths), max(lengths), 1, 64)
    plan = None if rows is None else DecodePlan(8, 128, 64, 64, 4, 1, 4, splits=3, least=128, bits=bits, in_turns=True)
    compare(random(rng, (len(lengths), 4, 64), "float16"), k, v, lengths, bits, plan=plan)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("bits", [8, 4])
def test_queries(rng, bits, dtype):
    lengths = [2, 140, 97]
    k, v = caches(rng, 3, 140, 2, 64, dtype)
    compare(random(rng, (3, 3, 4, 64), dtype), k, v, lengths, bits)


@pytest.mark.parametrize("scale", [0.0, -0.3, -1e-30, 0.4])
@pytest.mark.parametrize("bits, rows", [(8, 8), (4, 8), (4, 16)])
def test_scales(rng, bits, rows, scale):
    """Scores of four bits are scaled along with the subtraction of their maximum, by a positive number: a negative
    scale goes into the queries."""
    lengths = [300, 0, 33]
    k, v = caches(rng, 3, 300, 1, 64)
    q = random(rng, (3, 4, 64), "float16")
    cache = quantized_reference.quantized_cache(k, v, lengths, bits, 384)
    plan = DecodePlan(rows, 128, 64, 64, 4, 1, 4, splits=2, least=128, bits=bits)
    options = {"k_recent": cache[4], "v_recent": cache[5], "softmax_scale": scale, "plan": plan, "return_lse": True}
    out, lse = decode_quantized(q, *cache[:4], np.asarray(lengths, np.int32), **options)
    means = quantized_reference.decoded_cache(*cache, lengths)
    exact, exact_lse = decode_reference.decode_attention(q, *means, lengths, softmax_scale=scale, return_lse=True)
    assert_close(out, exact, length=300, scale=2.0**10)
    assert_close(lse, exact_lse, length=64, scale=2.0**9)


@pytest.mark.parametrize("lanes, in_turns, of_lane", [(4, False, 32), (1, True, 32), (4, True, 16)])
@pytest.mark.parametrize("bits", [8, 4])
def test_queries_as_columns(rng, bits, lanes, in_turns, of_lane):
    """The form of a plan of eight rows, also for channels of keys far from zero; lanes may have half of a group."""
    lengths = [300, 1, 0, 31, 33, 128, 257]
    k, v = caches(rng, len(lengths), 300, 2, 64)
    k[..., ::16] += (10 * rng.standard_normal((len(lengths), 1, 2, 4))).astype(np.float16)
    tokens = of_lane * lanes
    plan = DecodePlan(8, tokens, 64, 64, 2, 2, lanes, splits=2, least=tokens, bits=bits, in_turns=in_turns)
    compare(random(rng, (len(lengths), 2, 4, 64), "float16") / 2, k, v, lengths, bits, plan=plan)


def test_queries_are_columns():
    """Used if eight columns are enough and each warp has a lane of the plan."""

    def rows(group, queries, size, bits, machine=DEFAULT_GPU):
        return quantized_plan(8, 8, group, queries, size, bits, 4096, machine).rows

    assert rows(4, 1, 128, 8) == rows(4, 2, 128, 8) == 8
    assert rows(4, 1, 128, 4) == 8
    assert rows(4, 3, 128, 8) == rows(4, 1, 256, 8) == rows(4, 1, 128, 4, CPU) == rows(4, 1, 128, 8, CPU) == 16
    assert quantized_plan(8, 8, 4, 1, 128, 4, 32768, DEFAULT_GPU).splits == 6


def test_plans_of_codes():
    """Shares take steps in turns except with pages; the registers are divided among many programs: those that cannot
    all run at once have more, and another slot."""
    long, brief, many, more, shared, few = (
        quantized_plan(batch, 8, 4, 1, 128, 4, length, DEFAULT_GPU)
        for batch, length in ((8, 32768), (64, 512), (64, 4096), (96, 4096), (40, 4096), (32, 4096))
    )
    assert long.in_turns and not long.registers
    assert brief.splits == many.splits == 1 and not brief.in_turns and not many.in_turns
    assert shared.splits > 1 and shared.in_turns
    assert (brief.registers, brief.stages) == (many.registers, many.stages) == (128, 2)
    assert (more.registers, more.stages) == (shared.registers, shared.stages) == (168, 3)
    assert (few.registers, few.stages) == (0, 2)
    assert not quantized_plan(8, 8, 4, 1, 128, 4, 32768, DEFAULT_GPU, paged=True).in_turns
    # Warps copy for themselves, unless two share a group of keys, or whole sequences of eight bits gain nothing by it.
    assert {plan.schedule for plan in (long, brief, many, more, shared, few)} == {"lanes"}
    assert quantized_plan(1, 8, 4, 1, 128, 4, 512, DEFAULT_GPU).schedule == "simple"
    assert quantized_plan(64, 8, 4, 1, 128, 8, 4096, DEFAULT_GPU).schedule == "simple"
    assert quantized_plan(1, 8, 4, 1, 128, 8, 4096, DEFAULT_GPU).schedule == "lanes"


@pytest.mark.parametrize(
    "batch, group, length, stages",
    [
        (1, 1, 512, 2),  # measured: 4.20 us with 64 tokens per step; three slots 4.27
        (1, 4, 4096, 2),  # 7.09, 7.49
        (8, 4, 512, 2),  # 6.88, 7.13
        (8, 4, 32768, 2),  # 126.0, 128.5
        (64, 4, 512, 2),  # 21.8, 22.8; one short share each
        (64, 4, 4096, 3),  # 127.2, with two slots 140.6; one long share each
    ],
)
def test_slots_of_codes(batch, group, length, stages):
    """As many as were faster with eight bits; the last program loads no more shares than there are."""
    plan = quantized_plan(batch, 8, group, 1, 128, 8, length, DEFAULT_GPU, dependent=False)
    assert plan.stages == stages
    assert plan.splits <= plan.merged < 2 * plan.splits


@pytest.mark.parametrize("bits", [8, 4])
def test_short_caches(bits):
    """Few programs of one step take half as many tokens, also where two lanes share a group of keys. Measured, us: 4.34
    and 4.52, 4.56 and 4.92; eight sequences are too many (6.87 and 6.90, 6.42 and 6.01)."""

    def tokens(batch, length, paged=False):
        return quantized_plan(batch, 8, 1, 1, 128, bits, length, DEFAULT_GPU, paged).tokens

    assert tokens(1, 512) == 64
    assert tokens(1, 1024) == tokens(8, 512) == tokens(1, 512, paged=True) == 128


@pytest.mark.parametrize("rows", [16, 8])
@pytest.mark.parametrize("bits, side", [(8, 16), (8, 128), (4, 32), (4, 96), (4, 256)])
def test_pages(rng, bits, side, rows):
    """Pages shorter than a step, as long as one and longer, in any order: written by `append`, read by `decode`. Pages
    of no sequence are neither read nor written."""
    lengths, heads, size = np.array([257, 0, 33, 96], np.int32), 2, 32
    q, k, v = (random(rng, (4, 257, n, size), "float16") for n in (4, heads, heads))
    per = -(-257 // side)
    table = rng.permutation(4 * per + 1)[: 4 * per].reshape(4, per).astype(np.int32)
    cache = quantized_cache(4, side, heads, size, bits, q, pages=4 * per + 1)
    unused = (set(range(4 * per + 1)) - set(table.flat)).pop()
    cache.k[unused], cache.v[unused] = 77, 77
    table[np.arange(per) >= -(-lengths // side)[:, None]] = 0
    recent = {"k_recent": cache.k_recent, "v_recent": cache.v_recent, "block_table": table}
    # Prompts end together; then one token more.
    before = np.maximum(lengths - 1, 0)
    for have, new in ((before, 256), (lengths, 1)):
        taken = [np.stack([x[i, np.arange(n - new, n)] for i, n in enumerate(have)]) for x in (q, k, v)]
        append_quantized(*taken, *cache[:4], have, **recent)
    assert (cache.k[unused] == 77).all() and (cache.v[unused] == 77).all()
    plan = DecodePlan(rows, 128, size, size, 2, 1, 4, splits=2, least=128, bits=bits)
    out = decode_quantized(q[:, 0], *cache[:4], lengths, plan=plan, **recent)
    wanted = quantized_reference.quantized_cache(k, v, lengths, bits, 384)
    means = quantized_reference.decoded_cache(*wanted, lengths)
    assert_close(out, decode_reference.decode_attention(q[:, 0], *means, lengths), length=257, scale=2.0**10)


@pytest.mark.parametrize("bits", [8, 4])
def test_codes_of_more_than_32_bits(rng, bits):
    """Pages 2^31 bytes of codes and more from the first, written and read; they take room only where they are
    written."""
    tokens, heads, size = 256, 2, 32
    side = heads * tokens * size * bits // 8
    pages = (1 << 31) // side + 3
    q, k, v = (random(rng, (1, 300, n, size), "float16") for n in (4, heads, heads))
    near, lengths, results = quantized_cache(1, tokens, heads, size, bits, q, pages=2), np.array([300], np.int32), []
    assert pages * side > 1 << 31
    far = [np.memmap(tempfile.TemporaryFile(), x.dtype, "w+", shape=(pages, *x.shape[1:])) for x in near[:4]]
    recent = [np.zeros_like(x) if x is not None else None for x in near[4:]]
    for cache, table in ((near, [0, 1]), ((*far, *recent), [pages - 1, pages - 2])):
        options = {"k_recent": cache[4], "v_recent": cache[5], "block_table": np.array([table], np.int32)}
        append_quantized(q, k, v, *cache[:4], lengths, **options)
        results.append(decode_quantized(q[:, -1], *cache[:4], lengths, **options))
    assert (results[0] == results[1]).all() and results[0].any()
    assert all((far[i][pages - 1] == near[i][0]).all() for i in range(4)) and not far[0][0].any()


def test_packing_is_a_permutation(rng):
    for bits in (8, 4):
        for places in (quantized_reference.key_places, quantized_reference.value_places):
            codes = rng.integers(0, 1 << bits, (64, 96), np.uint8)
            data = quantized_reference.packed(codes, bits, places)
            assert data.shape == (4, 32, 96 * bits // 16)
            assert (quantized_reference.unpacked(data, bits, places) == codes).all()


def test_steps_hold_what_they_are_for(rng):
    """Every number of a group is within half a step, or one at the ends: for channels far from zero and near it."""
    x = rng.standard_normal((50, 32, 16)).astype(np.float32) * 10.0 ** rng.integers(-3, 2, 16) + rng.integers(-9, 9, 16)
    words = quantized_reference.ranges_of(x, 1)
    codes = quantized_reference.quantized(x, words[:, None])
    step = quantized_reference.step_of(words)[:, None]
    means = (codes + quantized_reference.zero_of(words)[:, None]) * step
    assert (np.abs(means - x) <= step * 1.001).all()
    assert (step[:, 0] <= np.maximum(np.ptp(x, 1) / 15, np.abs(x).max(1) / 120) * 1.13 + 1e-6).all()


def test_errors(rng):
    k, v = caches(rng, 1, 40, 2, 64)
    cache = quantized_reference.quantized_cache(k, v, [40], 8, 128)
    q, lengths = random(rng, (1, 4, 64), "float16"), np.array([40], np.int32)
    with pytest.raises(ValueError, match="k_ranges: expected shape"):
        decode_quantized(q, *cache[:2], cache[2][..., :64], cache[3], lengths)
    with pytest.raises(ValueError, match="multiple of 32"):
        decode_quantized(q[..., :48], *cache[:4], lengths)
    with pytest.raises(ValueError, match="block_table: expected 1 rows"):
        decode_quantized(q, *cache[:4], lengths, block_table=np.zeros((2, 1), np.int32))
    with pytest.raises(ValueError, match="multiple of 128 tokens"):
        decode_quantized(q, cache[0][:, :, :4], cache[1], *cache[2:4], lengths)


def error_rows():
    """By format: the cosine of attention's results with those over the f16 cache, and the largest change of a logit; on
    1,024 tokens of 8 heads of 128, where every sixteenth channel of keys is far from zero."""
    rng = np.random.default_rng(13)
    k, v = (rng.standard_normal((1024, 8, 128)) for _ in range(2))
    k[:, :, ::16] += 10 * rng.standard_normal((8, 8))
    k, v = k.astype(np.float16), v.astype(np.float16)
    q = rng.standard_normal((8, 16, 128)) / 4
    logits = {"f16": np.einsum("hqd,thd->hqt", q, k.astype(float)) / np.sqrt(128)}
    results = {}
    caches = {"eight bits": 8, "four bits, keys by channel": 4, "four bits, keys by token": 4}
    for name, bits in caches.items():
        cache = quantized_reference.quantized_cache(k[None], v[None], [1024], bits, 1024)
        means = quantized_reference.decoded_cache(*cache, [1024])[:, 0]
        if name.endswith("token"):
            for h in range(8):
                numbers = k[:, h].astype(np.float32)
                words = quantized_reference.ranges_of(numbers, 1)[:, None]
                codes = quantized_reference.quantized(numbers, words) + quantized_reference.zero_of(words)
                means[0][:, h] = codes * quantized_reference.step_of(words)
        logits[name], results[name] = np.einsum("hqd,thd->hqt", q, means[0]) / np.sqrt(128), means[1]
    results["f16"] = v.astype(float)

    def attention(name):
        weight = np.exp(logits[name] - logits[name].max(-1, keepdims=True))
        return np.einsum("hqt,thd->hqd", weight / weight.sum(-1, keepdims=True), results[name])

    exact = attention("f16")
    for name in caches:
        out = attention(name)
        cosine = (out * exact).sum() / np.linalg.norm(out) / np.linalg.norm(exact)
        yield name, float(cosine), float(np.abs(logits[name] - logits["f16"]).max())


def test_what_the_readme_says_of_errors():
    text = pathlib.Path(quantized_reference.__file__).with_name("CACHE.md").read_text()
    for name, cosine, divergence in error_rows():
        row = re.search(rf"\| {name} \| ([0-9.]+) \| ([0-9.]+) \|", text)
        assert row, f"expected a row for {name}"
        assert abs(float(row[1]) - cosine) < 1e-3 and abs(float(row[2]) - divergence) < 0.02 * divergence + 1e-3, name


def test_bytes_of_a_cache():
    """Llama-3-8B: 32 layers, 8 heads of 128, 1,024 tokens. Besides the codes, that is 1 and 2.5 MiB."""
    like = np.empty(0, np.float16)
    size = {}
    for bits in (8, 4):
        cache = quantized_cache(1, 1024, 8, 128, bits, like)
        size[bits] = 32 * sum(x.nbytes for x in cache[:4]) / 2**20
        assert bits == 8 or 32 * (cache.k_recent.nbytes + cache.v_recent.nbytes) == 4 << 20
    assert size == {8: 65.0, 4: 34.5}

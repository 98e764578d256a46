"""Decoding as GPU code: rings of copied keys and values, a warp for each lane, parts that the last program adds up."""

import dataclasses

import numpy as np
import pytest
from harness import assert_close, random
from kiln.kernels.attention import (
    append,
    append_quantized,
    decode_attention,
    decode_quantized,
    decode_reference,
    quantized_cache,
    quantized_reference,
)
from kiln.kernels.attention.decode_configs import DecodePlan, decode_plan
from kiln.kernels.machine import DEFAULT_GPU
from kiln.kernels.rope import reference as rope_reference
from kiln.kernels.rope import rope_tables

COPIES = {"cp", "mma", "ldmatrix"}


@pytest.fixture
def close(launched, emulated):
    """Runs in both orders of warps by copies into a ring and tensor cores: right, and the same bits."""

    def compare(q, k, v, lengths, plan, exact=None, **options):
        exact = exact or decode_reference.decode_attention(q, k, v, lengths, return_lse=True, **options)
        emulated.used.clear()
        both = launched(lambda: decode_attention(q, k, v, lengths, plan=plan, return_lse=True, **options))
        # With queries as columns, a warp's weights are the result of one product and the right operand of the next.
        expected = COPIES | {"movmatrix"} if plan.rows == 8 and plan.lanes == plan.num_warps else COPIES
        assert emulated.used >= expected, f"expected {sorted(expected)}, got {sorted(emulated.used)}"
        for one, other, want, scale in zip(*both, exact, (2.0**11, 8), strict=True):
            assert_close(one, want, length=int(max(lengths)), scale=scale)
            assert one.tobytes() == other.tobytes(), "the order of warps shows"

    return compare


@pytest.mark.parametrize("rows, splits", [(16, 1), (16, 3), (8, 3)])
@pytest.mark.parametrize("lanes, warps", [(1, 1), (2, 2), (1, 2)])
def test_shares_and_lanes(rng, close, lanes, warps, splits, rows):
    q, k, v = random(rng, (2, 4, 32), "float16"), *(random(rng, (2, 150, 2, 32), "float16") for _ in range(2))
    plan = DecodePlan(rows, 32, 32, 32, 2, lanes=lanes, splits=splits, least=32, stages=3, num_warps=warps, merged=2)
    close(q, k, v, np.array([150, 33], np.int32), plan)


@pytest.mark.parametrize("rows", [16, 8])
def test_uneven_lengths(rng, close, rows):
    """Equally long shares, which programs compute from the lengths of all; more programs than shares."""
    q, k, v = random(rng, (3, 4, 32), "float16"), *(random(rng, (3, 150, 2, 32), "float16") for _ in range(2))
    plan = DecodePlan(rows, 32, 32, 32, 2, lanes=2, splits=3, least=32, stages=3, num_warps=2, merged=2, sequences=4)
    for lengths in ([0, 150, 20], [20, 0, 150]):
        close(q, k, v, np.array(lengths, np.int32), plan)


@pytest.mark.parametrize("ahead, in_turns, known", [
    (False, False, 0), (True, False, 0), (True, True, 0), (False, True, 3),
])  # fmt: skip
@pytest.mark.parametrize("page_size", [16, 5, 64])
def test_pages(rng, close, page_size, ahead, in_turns, known):
    """Pages shorter than a step, that divide none, and longer; table entries without tokens are not valid pages."""
    pages, lengths = -(-140 // page_size), np.array([100, 44], np.int32)
    k, v = (random(rng, (2 * pages, page_size, 1, 32), "float16") for _ in range(2))
    table = rng.permutation(2 * pages).reshape(2, pages).astype(np.int32)
    needed = np.arange(pages) * page_size < lengths[:, None]
    plan = DecodePlan(16, 32, 32, 32, 2, lanes=2, splits=2, least=32, stages=3, num_warps=2, merged=2)
    plan = dataclasses.replace(plan, ahead=ahead, in_turns=in_turns, known=known)
    wild = np.where(needed, table, 1 << 30).astype(np.int32)
    q = random(rng, (2, 2, 32), "float16")
    exact = decode_reference.decode_attention(q, k, v, lengths, return_lse=True, block_table=table)
    close(q, k, v, lengths, plan, exact=exact, block_table=wild)


@pytest.mark.parametrize("page_size", [None, 16, 5])
def test_programs_of_eight_warps(rng, close, page_size):
    """The plan of eight short sequences, in steps of 128 tokens, for two: one has three steps, one less than a step."""
    plan = decode_plan(8, 8, 4, 1, 128, 2, 300, DEFAULT_GPU, paged=page_size is not None)
    assert plan.num_warps == 8 and plan.known == (3 if page_size else 0)
    lengths, q, paging = np.array([300, 97], np.int32), random(rng, (2, 4, 128), "float16"), {}
    shape = (2, 300, 1, 128)
    if page_size:
        shape = (2 * -(-300 // page_size), page_size, 1, 128)
        paging["block_table"] = rng.permutation(shape[0]).reshape(2, -1).astype(np.int32)
    close(q, random(rng, shape, "float16"), random(rng, shape, "float16"), lengths, plan, max_length=300, **paging)


@pytest.mark.parametrize("page_size, ahead", [(1, True), (4, True), (5, True), (5, False)])
def test_pages_of_rows_that_other_warps_hold(rng, close, emulated, page_size, ahead):
    """In steps of whole heads of 128, four warps copy rows whose pages another warp may have looked up: pieces stay 16
    bytes wide."""
    lengths = np.array([150, 61], np.int32)
    pages = -(-150 // page_size)
    k, v = (random(rng, (2 * pages, page_size, 1, 128), "float16") for _ in range(2))
    table = rng.permutation(2 * pages).reshape(2, pages).astype(np.int32)
    plan = DecodePlan(16, 64, 128, 128, 2, lanes=4, splits=2, least=64, stages=3, merged=2)
    plan = dataclasses.replace(plan, ahead=ahead, in_turns=True)
    emulated.machines.clear()
    close(random(rng, (2, 2, 128), "float16"), k, v, lengths, plan, block_table=table)
    for machine in emulated.machines.values():
        copies = [i for i in machine.instructions if i.name == "cp" and {"ca", "cg"} & set(i.modifiers)]
        assert copies and all("cg" in i.modifiers for i in copies)


@pytest.mark.parametrize("known", [0, 2])
def test_pages_with_different_value_strides(rng, close, known):
    """Keys and values whose strides differ share no offsets, whatever the plan says."""
    k, v = random(rng, (14, 16, 1, 32), "float16"), random(rng, (14, 16, 2, 32), "float16")[:, :, :1]
    table, lengths = rng.permutation(14).reshape(2, 7).astype(np.int32), np.array([100, 44], np.int32)
    plan = DecodePlan(16, 32, 32, 32, 2, lanes=2, splits=2, least=32, stages=3, num_warps=2, merged=2)
    plan = dataclasses.replace(plan, ahead=known == 0, in_turns=True, known=known)
    close(random(rng, (2, 2, 32), "float16"), k, v, lengths, plan, block_table=table)


@pytest.mark.parametrize("rows", [16, 8])
def test_queries_in_a_window(rng, close, rows):
    q, k, v = random(rng, (2, 3, 4, 32), "float16"), *(random(rng, (2, 90, 2, 32), "float16") for _ in range(2))
    plan = DecodePlan(rows, 32, 32, 32, 2, queries=3, lanes=2, splits=2, least=32, stages=2, num_warps=2, merged=2)
    close(q, k, v, np.array([90, 2], np.int32), plan, window=40)


def test_turns(rng, close):
    """Shares that take steps in turns."""
    q, k, v = random(rng, (2, 4, 32), "float16"), *(random(rng, (2, 150, 2, 32), "float16") for _ in range(2))
    plan = DecodePlan(16, 32, 32, 32, 2, lanes=2, splits=3, stages=3, num_warps=2, merged=2)
    plan = dataclasses.replace(plan, in_turns=True)
    close(q, k, v, np.array([150, 33], np.int32), plan)


@pytest.mark.parametrize("rows, in_turns", [(16, False), (8, False), (8, True)])
@pytest.mark.parametrize("bits", [8, 4])
def test_quantized(rng, launched, emulated, bits, rows, in_turns):
    """Codes come from a ring and are widened in registers, together with recent tokens at four bits. Eight rows are
    columns of the products."""
    k, v = (random(rng, (2, 150, 1, 32), "float16") for _ in range(2))
    q, lengths = random(rng, (2, 2, 32), "float16"), [150, 33]
    plan = DecodePlan(rows, 64, 32, 32, 2, lanes=2, splits=2, least=64, stages=2, num_warps=2, merged=2, bits=bits)
    plan = dataclasses.replace(plan, in_turns=in_turns)
    cache = quantized_reference.quantized_cache(k, v, lengths, bits, 256)
    exact = decode_reference.decode_attention(q, *quantized_reference.decoded_cache(*cache, lengths), lengths)
    recent = {"k_recent": cache[4], "v_recent": cache[5]}
    emulated.used.clear()
    one, other = launched(lambda: decode_quantized(q, *cache[:4], np.array(lengths, np.int32), plan=plan, **recent))
    assert emulated.used >= {"cp", "mma", "prmt"}
    assert_close(one, exact, length=150, scale=2.0**10)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"


@pytest.mark.parametrize("bits, side, rows", [(4, 32, 8), (8, 64, 16)])
def test_quantized_pages(rng, launched, emulated, bits, side, rows):
    """Pages shorter than a step and as long, looked up as far ahead as they are copied; no page comes after a
    sequence."""
    k, v = (random(rng, (2, 150, 1, 32), "float16") for _ in range(2))
    q, lengths = random(rng, (2, 2, 32), "float16"), [150, 33]
    plan = DecodePlan(rows, 64, 32, 32, 2, lanes=2, splits=2, least=64, stages=2, num_warps=2, merged=2, bits=bits)
    whole = quantized_reference.quantized_cache(k, v, lengths, bits, 256)
    exact = decode_reference.decode_attention(q, *quantized_reference.decoded_cache(*whole, lengths), lengths)
    per = 256 // side
    table = rng.permutation(2 * per).reshape(2, per).astype(np.int32)
    arrays = []
    for array in whole[:4]:
        parts = array.reshape(2, 1, per, array.shape[2] // per, *array.shape[3:]).swapaxes(1, 2)
        pages = np.zeros((2 * per, *parts.shape[2:]), array.dtype)
        pages[table] = parts
        arrays.append(pages)
    table[1, 1 if side == 64 else 2 :] = 1 << 20
    recent = {"k_recent": whole[4], "v_recent": whole[5], "block_table": table[:, : -(-150 // side)]}
    emulated.used.clear()
    one, other = launched(lambda: decode_quantized(q, *arrays, np.array(lengths, np.int32), plan=plan, **recent))
    assert emulated.used >= {"cp", "mma", "prmt"}
    assert_close(one, exact, length=150, scale=2.0**10)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_append(rng, launched, bits):
    """A prompt that fills groups of tokens and begins another, then a token; the same bits in both orders of warps."""
    q, k, v = (random(rng, (1, 40, heads, 32), "float16") for heads in (2, 1, 1))
    cos, sin = rope_tables(64, 32)

    def run():
        cache = np.zeros((2, 1, 64, 1, 32), np.float16)
        if bits < 16:
            cache = quantized_cache(1, 64, 1, 32, bits, q)
        recent = {} if bits == 16 else {"k_recent": cache.k_recent, "v_recent": cache.v_recent}
        function = append if bits == 16 else append_quantized
        arrays = list(cache) if bits == 16 else cache[:4]
        for part in (slice(0, 39), slice(39, 40)):
            lengths = np.array([part.stop], np.int32)
            turned = function(q[:, part], k[:, part], v[:, part], *arrays, lengths, cos, sin, **recent)
        return turned, *(x for x in cache if x is not None)

    first, second = launched(run)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    exact_q, exact_k = rope_reference.rope(q, k, cos, sin)
    assert_close(first[0], exact_q[:, 39:], length=4)
    means = first[1:] if bits == 16 else quantized_reference.decoded_cache(*(*first[1:], None, None)[:6], [40])
    step = {16: 2.0**-9, 8: 1 / 60, 4: 1 / 4}[bits] * np.abs(exact_k).max()
    assert np.abs(means[0][:, :40] - exact_k).max() <= step and np.abs(means[1][:, :40] - v.astype(float)).max() <= step

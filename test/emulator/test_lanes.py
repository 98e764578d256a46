"""Products of the schedule `lanes`: where each warp copies what it multiplies, a step has a barrier of each warp only.
The emulator reports what a warp reads of other warps' copies, or overwrites before they have read it.

Operands of products that are not the library's are small integers, so every sum is exact.
"""

import dataclasses

import kiln
import kiln.language as kl
import numpy as np
import pytest
from harness import assert_close, random
from kiln.kernels.attention import decode_attention, decode_quantized, decode_reference, quantized_reference
from kiln.kernels.attention.decode_configs import DecodePlan
from kiln.kernels.machine import launch_options

from emulator.test_tensor_cores import integers

ROWS = 16


@kiln.jit
def _scaled_sums(x, scales, table, out, tokens, TOKENS: kl.constexpr, SIZE: kl.constexpr, LANES: kl.constexpr,
                 PAGE: kl.constexpr):  # fmt: skip
    """Row r of lane l: r + 1 times the sum of the l-th part of each step's tokens, each times its scale."""
    PART: kl.constexpr = TOKENS // LANES
    row, column = kl.arange(0, TOKENS), kl.arange(0, SIZE)
    rows = kl.broadcast_to((kl.arange(0, 16) + 1).to(kl.float16)[None, :, None], (LANES, 16, PART))
    total = kl.zeros((LANES, 16, SIZE), kl.float32)
    for first in range(0, tokens, TOKENS):
        token = first + row
        place = token
        if PAGE > 0:
            place = kl.load(table + token // PAGE, mask=token < tokens, other=0) * PAGE + token % PAGE
        value = kl.load(x + place[:, None] * SIZE + column[None, :], mask=(token < tokens)[:, None], other=0.0)
        scale = kl.load(scales + first + row[None, :])
        total = kl.dot(rows * scale.reshape(LANES, 1, PART), value.reshape(LANES, PART, SIZE), total)
    place = kl.arange(0, LANES)[:, None, None] * 16 + kl.arange(0, 16)[None, :, None]
    kl.store(out + place * SIZE + column[None, None, :], total)


def check_sums(rng, in_orders, emulated, lanes, warps, tokens, page=0, step=64, size=32, stages=3) -> bool:
    """Right in all orders; returns whether warps wait for themselves alone."""
    padded = -(-tokens // step) * step
    x, scales = integers(rng, (padded, size), "float16"), rng.integers(1, 4, padded).astype(np.float16)
    table = rng.permutation(padded // max(page, 1)).astype(np.int32)
    place = np.arange(tokens)
    given = np.full_like(x, np.nan)  # masked off, or in no page of the sequence
    if page:
        place = table[place // page] * page + place % page
    given[place] = x[:tokens]
    scaled = np.zeros((padded, size))
    scaled[:tokens] = x[:tokens].astype(np.float64) * scales[:tokens, None]
    sums = scaled.reshape(-1, lanes, step // lanes, size).sum((0, 2))
    want = (np.arange(ROWS) + 1)[None, :, None] * sums[:, None, :]

    def launch():
        out = np.zeros((lanes, ROWS, size), np.float32)
        options = {"schedule": "lanes", "stages": stages, "num_warps": warps}
        _scaled_sums[1,](given, scales, table, out, tokens, step, size, lanes, page, **options)
        return out

    emulated.machines.clear()
    for got in in_orders(launch, {"cp", "mma"}):
        assert (got == want).all()
    return wait_by_warp(emulated)


def wait_by_warp(emulated) -> bool:
    """Whether kernels since `machines` was cleared have barriers of a warp."""
    return any("warp" in each.modifiers for machine in emulated.machines.values() for each in machine.instructions)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("tokens", [5, 64, 150, 448, 500])
def test_a_lane_for_each_warp(rng, in_orders, emulated, tokens, stages):
    """Whole steps and a masked tail; fewer steps than slots, and more."""
    assert check_sums(rng, in_orders, emulated, 4, 4, tokens, stages=stages)


@pytest.mark.parametrize("page", [4, 16, 64])
def test_pages(rng, in_orders, emulated, page):
    """Rows whose places are looked up ahead, possibly by other warps."""
    assert check_sums(rng, in_orders, emulated, 4, 4, 300, page)


@pytest.mark.parametrize("lanes, warps, step", [(2, 2, 32), (8, 8, 128)])
def test_other_numbers_of_lanes(rng, in_orders, emulated, lanes, warps, step):
    assert check_sums(rng, in_orders, emulated, lanes, warps, 300, step=step)


@pytest.mark.parametrize("lanes, warps", [(1, 2), (2, 4), (4, 8)])
def test_warps_that_share_a_lane_wait_for_each_other(rng, in_orders, emulated, lanes, warps):
    assert not check_sums(rng, in_orders, emulated, lanes, warps, 300)


@pytest.mark.parametrize("lanes, warps, rows", [(4, 4, 16), (4, 4, 8), (1, 2, 16)])
@pytest.mark.parametrize("page", [None, 16, 5])
def test_decoding(rng, launched, emulated, page, lanes, warps, rows):
    lengths, size = np.array([150, 33], np.int32), 32
    plan = DecodePlan(rows, 64, size, size, 2, lanes=lanes, splits=2, least=64, stages=3, num_warps=warps, merged=2)
    shape, paged = (2, 150, 1, size), {}
    if page:
        pages = -(-150 // page)
        table = rng.permutation(2 * pages).reshape(2, pages).astype(np.int32)
        shape, paged = (2 * pages, page, 1, size), {"block_table": table}
        plan = dataclasses.replace(plan, ahead=True, in_turns=True)
    q, k, v = random(rng, (2, 2, size), "float16"), *(random(rng, shape, "float16") for _ in range(2))
    exact = decode_reference.decode_attention(q, k, v, lengths, **paged)
    emulated.used.clear()
    emulated.machines.clear()
    with launch_options(schedule="lanes"):
        one, other = launched(lambda: decode_attention(q, k, v, lengths, plan=plan, **paged))
    assert emulated.used >= {"cp", "mma"}
    assert wait_by_warp(emulated) == (lanes == warps)
    assert_close(one, exact, length=150, scale=2.0**11)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"


@pytest.mark.parametrize(
    "splits, capacity, size, heads, most",
    [(1, 150, 96, 1, None), (3, 150, 96, 1, None), (3, 100, 96, 2, None), (1, 7, 144, 1, None), (3, 150, 64, 1, 120)],
)
def test_asking_before_the_launch_waits(rng, launched, emulated, splits, capacity, size, heads, most):
    """The emulator faults if anything is read before the wait, and if memory is asked for that is not there."""
    lengths, side = np.array([most or capacity, min(33, capacity)], np.int32), 1 << (size - 1).bit_length()
    tokens, lanes = (64, 4) if side <= 128 else (32, 2)
    plan = DecodePlan(16, tokens, size, side, 2, lanes=lanes, splits=splits, least=tokens, stages=3, merged=2)
    plan = dataclasses.replace(plan, in_turns=splits > 1, asks=True)
    shape = 2, capacity, heads, size
    q, k, v = random(rng, (2, 2 * heads, size), "float16"), *(random(rng, shape, "float16") for _ in range(2))
    exact = decode_reference.decode_attention(q, k, v, lengths)
    emulated.used.clear()
    with launch_options(pdl=True):
        one, other = launched(lambda: decode_attention(q, k, v, lengths, plan=plan, max_length=most))
    assert emulated.used >= {"cp", "mma", "prefetch", "griddepcontrol"}
    assert_close(one, exact, length=capacity, scale=2.0**11)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"


@pytest.mark.parametrize("page, splits, most, rows, known", [
    (16, 3, None, 16, 0), (5, 2, None, 8, 0), (64, 1, 120, 16, 0), (16, 3, None, 16, 1), (5, 1, None, 8, 3),
])  # fmt: skip
def test_asking_for_pages(rng, launched, emulated, page, splits, most, rows, known):
    """The launch before may still write the table, so the emulator answers a read before the wait with anything: what
    is asked for must be in the cache, and nothing else may depend on it."""
    lengths, size, pages = np.array([most or 150, 33], np.int32), 96, -(-150 // page)
    plan = DecodePlan(rows, 64, size, 128, 2, lanes=4, splits=splits, least=64, stages=2, merged=2, ahead=splits > 1)
    plan = dataclasses.replace(plan, in_turns=splits > 1, asks=True, known=known, ahead=splits > 1 and not known)
    table = rng.permutation(2 * pages).reshape(2, pages).astype(np.int32)
    q, shape = random(rng, (2, 4, size), "float16"), (2 * pages, page, 2, size)
    k, v = (random(rng, shape, "float16") for _ in range(2))
    exact = decode_reference.decode_attention(q, k, v, lengths, block_table=table)
    emulated.used.clear()
    with launch_options(pdl=True):
        one, other = launched(lambda: decode_attention(q, k, v, lengths, block_table=table, max_length=most, plan=plan))
    assert emulated.used >= {"cp", "mma", "prefetch", "griddepcontrol"}
    assert_close(one, exact, length=150, scale=2.0**11)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"


def test_no_page_is_asked_for_where_there_is_none(launched, emulated):
    """The table of sequences without tokens may have rooms for pages, but the cache has none."""
    plan = DecodePlan(16, 64, 64, 64, 2, lanes=4, least=64, stages=2, asks=True)
    q, pages, table = np.ones((2, 2, 64), np.float16), np.ones((0, 16, 1, 64), np.float16), np.zeros((2, 4), np.int32)
    with launch_options(pdl=True):
        one, _ = launched(
            lambda: decode_attention(q, pages, pages, np.zeros(2, np.int32), block_table=table, plan=plan)
        )
    assert (one == 0).all()


def in_pages(rng, arrays, count):
    """Arrays of sequences as ``count`` pages of each, in any order, and their table."""
    batch = arrays[0].shape[0]
    table = rng.permutation(batch * count).reshape(batch, count).astype(np.int32)
    found = []
    for x in arrays:
        parts = np.moveaxis(x.reshape(*x.shape[:2], count, -1, *x.shape[3:]), 2, 1)
        found.append(np.empty_like(parts.reshape(-1, *parts.shape[2:])))
        found[-1][table] = parts
    return found, table


@pytest.mark.parametrize("bits, tokens, splits, page", [
    (8, 128, 4, None), (4, 128, 2, None), (4, 64, 1, None), (8, 128, 2, 48), (4, 128, 1, 128),
])  # fmt: skip
def test_asking_for_codes(rng, launched, emulated, bits, tokens, splits, page):
    size, lengths = 96, [300, 33]
    k, v = (random(rng, (2, 300, 1, size), "float16") for _ in range(2))
    q = random(rng, (2, 2, size), "float16")
    plan = DecodePlan(8, tokens, size, size, 2, lanes=4, splits=splits, least=tokens, stages=2, merged=2, bits=bits)
    plan = dataclasses.replace(plan, in_turns=splits > 1, asks=True)
    cache = quantized_reference.quantized_cache(k, v, lengths, bits, 384)
    exact = decode_reference.decode_attention(q, *quantized_reference.decoded_cache(*cache, lengths), lengths)
    recent, paged = {"k_recent": cache[4], "v_recent": cache[5]}, {}
    arrays = cache[:4]
    if page:
        arrays, table = in_pages(rng, arrays, 384 // page)
        paged = {"block_table": table}
    emulated.used.clear()
    with launch_options(pdl=True):
        one, other = launched(
            lambda: decode_quantized(q, *arrays, np.array(lengths, np.int32), plan=plan, **recent, **paged)
        )
    assert emulated.used >= {"cp", "mma", "prefetch", "griddepcontrol"}
    assert_close(one, exact, length=300, scale=2.0**10)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"


@pytest.mark.parametrize("bits, rows", [(8, 16), (8, 8), (4, 16), (4, 8)])
def test_decoding_of_codes(rng, launched, emulated, bits, rows):
    """Codes, a scale for each token, and at four bits words of each 32 tokens' channels are parts of one ring."""
    k, v = (random(rng, (2, 300, 1, 32), "float16") for _ in range(2))
    q, lengths = random(rng, (2, 2, 32), "float16"), [300, 33]
    plan = DecodePlan(rows, 128, 32, 32, 2, lanes=4, splits=2, least=128, stages=2, num_warps=4, merged=2, bits=bits)
    cache = quantized_reference.quantized_cache(k, v, lengths, bits, 384)
    exact = decode_reference.decode_attention(q, *quantized_reference.decoded_cache(*cache, lengths), lengths)
    recent = {"k_recent": cache[4], "v_recent": cache[5]}
    emulated.used.clear()
    emulated.machines.clear()
    with launch_options(schedule="lanes"):
        one, other = launched(lambda: decode_quantized(q, *cache[:4], np.array(lengths, np.int32), plan=plan, **recent))
    assert emulated.used >= {"cp", "mma", "prmt"} and wait_by_warp(emulated)
    assert_close(one, exact, length=300, scale=2.0**10)
    assert one.tobytes() == other.tobytes(), "the order of warps shows"

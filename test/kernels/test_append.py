"""`append`: RoPE and writing to a cache, contiguous, paged or quantised, for one token and for whole prompts."""

import gc
import tempfile
import tracemalloc

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln import errors
from kiln.kernels.attention import (
    append,
    append_quantized,
    decode_attention,
    decode_quantized,
    quantized_cache,
    quantized_reference,
)
from kiln.kernels.rope import reference as rope_reference
from kiln.kernels.rope import rope_tables


def turned(q, k, cos, sin, lengths, interleaved):
    """Rotates tokens as `rope` does, the last one at position length - 1; tokens before position 0 stay unchanged."""
    tokens = q.shape[1]
    positions = np.maximum(np.asarray(lengths)[:, None] - tokens + np.arange(tokens), 0)
    return rope_reference.rope(q, k, cos, sin, positions=positions, interleaved=interleaved)


def new(rng, batch, tokens, heads, k_heads, size, dtype="float32"):
    return (random(rng, (batch, tokens, h, size), dtype) for h in (heads, k_heads, k_heads))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens, size, turning", [(1, 64, 64), (5, 40, 24), (3, 128, 128)])
def test_append(rng, tokens, size, turning, dtype, interleaved):
    q, k, v = new(rng, 3, tokens, 6, 2, size, dtype)
    cos, sin = rope_tables(64, turning)
    k_cache, v_cache = (random(rng, (3, 40, 2, size), dtype) for _ in range(2))
    before = k_cache.copy(), v_cache.copy()
    lengths = np.array([40, tokens, 17], np.int32)
    out = append(q, k, v, k_cache, v_cache, lengths, cos, sin, interleaved=interleaved)
    exact_q, exact_k = turned(q, k, cos, sin, lengths, interleaved)
    assert_close(out, exact_q, length=4)
    for b, length in enumerate(lengths):
        rows = slice(length - tokens, length)
        assert_close(k_cache[b, rows], exact_k[b], length=4)
        assert (v_cache[b, rows] == v[b]).all()
        before[0][b, rows], before[1][b, rows] = k_cache[b, rows], v_cache[b, rows]
    assert (k_cache == before[0]).all() and (v_cache == before[1]).all(), "nothing else is written"


def test_pages_and_prompts_that_end_together(rng):
    """A prompt shorter than the others has nothing before its first token; q may be rotated in place."""
    q, k, v = new(rng, 2, 7, 2, 1, 32)
    cos, sin = rope_tables(32, 32)
    k_cache, v_cache = np.zeros((2, 12, 4, 1, 32), np.float32)
    table = rng.permutation(12).reshape(2, 6).astype(np.int64)
    lengths = np.array([20, 3], np.int64)
    exact_q, exact_k = turned(q, k, cos, sin, lengths, False)
    assert append(q, k, v, k_cache, v_cache, lengths, cos, sin, block_table=table, out=q) is q
    assert_close(q[0], exact_q[0], length=4)
    assert_close(q[1, 4:], exact_q[1, 4:], length=4)
    flat_k, flat_v = (x[table].reshape(2, 24, 1, 32) for x in (k_cache, v_cache))
    assert_close(flat_k[0, 13:20], exact_k[0], length=4)
    assert_close(flat_k[1, :3], exact_k[1, 4:], length=4)
    assert (flat_v[0, 13:20] == v[0]).all() and (flat_v[1, :3] == v[1, 4:]).all()
    assert not flat_k[0, :13].any() and not flat_k[1, 3:].any() and not flat_v[1, 3:].any()


@pytest.mark.parametrize("what", ["sequences", "tokens", "heads", "pages"])
def test_caches_of_more_than_32_bits(rng, what):
    """Elements 2^31 and more from the first are written where they belong, and nothing else is."""
    shape = (4, 16, 2, 32) if what == "pages" else (3, 90, 2, 32)
    strides = {
        "sequences": (5 << 28, 64, 32, 1),
        "tokens": (64, 3 << 24, 32, 1),
        "heads": (90 * 32, 32, 9 << 28, 1),
        "pages": (3 << 28, 64, 32, 1),
    }[what]
    last = sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True))
    assert last > 1 << 31
    room = np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=(last + 1,))
    far = np.lib.stride_tricks.as_strided(room, shape, [4 * stride for stride in strides])
    near, v_cache = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    options = {"block_table": np.array([[1, 2], [0, 3]], np.int32)} if what == "pages" else {}
    lengths = np.array([30, 20] if options else [90, 7, 88], np.int32)
    q, k, v = new(rng, len(lengths), 7, 2, 2, 32)
    for k_cache in (near, far):
        append(q, k, v, k_cache, v_cache, lengths, **options)
    assert near.any() and (far == near).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_a_prefill_keeps_no_cache_of_16_bits(rng, bits):
    """What exists at once while the layers of a model store a prompt into quantised caches and decode a token: the
    codes of all layers, and beside them one layer's queries, keys and values."""
    layers, tokens, heads, size = 16, 512, 2, 64
    cos, sin = rope_tables(2 * tokens, size)
    lengths = np.array([tokens], np.int32)

    def layer(cache):
        q, k, v = (np.ones((1, tokens, heads, size), np.float16) for _ in range(3))
        recent = {"k_recent": cache.k_recent, "v_recent": cache.v_recent}
        turned = append_quantized(q, k, v, *cache[:4], lengths, cos, sin, **recent)
        return decode_quantized(turned[:, -1], *cache[:4], lengths, **recent)

    def made():
        return quantized_cache(1, tokens, heads, size, bits, np.empty(0, np.float16))

    layer(made())  # what compiling takes is not counted
    gc.collect()
    tracemalloc.start()
    try:
        caches = [made() for _ in range(layers)]
        codes = sum(array.nbytes for cache in caches for array in cache if array is not None)
        for cache in caches:
            layer(cache)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    of_a_layer = tokens * heads * size * 2
    # Of 16 bits: queries, keys, values and the rotated queries; and less for a result and for Python than one of these.
    assert codes < peak < codes + 5 * of_a_layer
    assert 5 * of_a_layer < layers * 2 * of_a_layer / 6, "a cache of 16 bits would be noticed"


def test_without_tables_nothing_is_rotated(rng):
    q, k, v = new(rng, 1, 2, 2, 2, 16)
    k_cache, v_cache = np.zeros((2, 1, 5, 2, 16), np.float32)
    assert (append(q, k, v, k_cache, v_cache, np.array([4], np.int32)) == q).all()
    assert (k_cache[0, 2:4] == k[0]).all() and (v_cache[0, 2:4] == v[0]).all()


@pytest.mark.parametrize("chunks", [(150,), (1,) * 40, (40, 1, 23, 64, 5)])
@pytest.mark.parametrize("bits", [8, 4])
def test_quantized(rng, bits, chunks):
    """The cache is the same whether a prompt comes at once, in pieces or token by token: the reference's, except for
    ties."""
    tokens, size, k_heads = sum(chunks), 64, 2
    _, k, v = new(rng, 2, tokens, 2, k_heads, size, "float16")
    cache = quantized_cache(2, tokens, k_heads, size, bits, k)
    at = 0
    for chunk in chunks:
        part = slice(at, at + chunk)
        lengths = np.full(2, at + chunk, np.int32)
        append_quantized(k[:, part], k[:, part], v[:, part], *cache[:4], lengths, k_recent=cache[4], v_recent=cache[5])
        at += chunk
    lengths = [tokens, tokens]
    wanted = quantized_reference.quantized_cache(k, v, lengths, bits, cache.k.shape[2] * 16)
    for which in (0, 1):
        places = quantized_reference.value_places if which else quantized_reference.key_places
        for b in range(2):
            for h in range(k_heads):
                got, want = (quantized_reference.unpacked(x[which][b, h], bits, places) for x in (cache, wanted))
                whole = tokens if bits == 8 else tokens // 32 * 32
                apart = np.abs(got[:whole].astype(int) - want[:whole])
                assert apart.max(initial=0) <= 1 and (apart > 0).mean() < 0.01
        assert (np.abs(cache[2 + which].astype(int) - wanted[2 + which].astype(int)) <= 256).all()
        assert bits == 8 or (cache[4 + which][:, :, : tokens % 32] == wanted[4 + which][:, :, : tokens % 32]).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_a_step_of_a_model(rng, bits):
    """A prompt, then tokens one by one, with rotated keys: attention over what was written."""
    cos, sin = rope_tables(128, 64)
    q, k, v = new(rng, 2, 70, 4, 2, 64, "float16")
    cache = quantized_cache(2, 70, 2, 64, bits, q)
    recent = {"k_recent": cache[4], "v_recent": cache[5]}
    for first, last in ((0, 66), (66, 67), (67, 68), (68, 69), (69, 70)):
        lengths = np.full(2, last, np.int32)
        new_q, new_k, new_v = (x[:, first:last] for x in (q, k, v))
        turned_q = append_quantized(new_q, new_k, new_v, *cache[:4], lengths, cos, sin, **recent)
    exact_q, exact_k = rope_reference.rope(q, k, cos, sin)
    assert_close(turned_q, exact_q[:, 69:], length=4)
    means = quantized_reference.decoded_cache(*cache, [70, 70])
    step = np.abs(exact_k).max() / (127 if bits == 8 else 6)
    assert np.abs(means[0] - exact_k).max() < step and np.abs(means[1] - v.astype(float)).max() < step
    out = decode_quantized(turned_q[:, 0], *cache[:4], lengths, **recent)
    score = np.einsum("bhd,bthd->bht", turned_q[:, 0].astype(float), means[0].repeat(2, axis=2)) / 8
    weight = np.exp(score - score.max(-1, keepdims=True))
    exact = np.einsum("bht,bthd->bhd", weight / weight.sum(-1, keepdims=True), means[1].repeat(2, axis=2))
    assert_close(out, exact, length=70, scale=2.0**10)


@pytest.mark.host
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("page", [-1, 3, 2**30])
def test_missing_pages_stop_the_program(rng, page, dtype):
    """They used to be read and written; table entries after the length may be anything."""
    q, k, v = (random(rng, (1, 8, heads, 32)) for heads in (4, 2, 2))
    k_cache, v_cache = random(rng, (3, 32, 2, 32)), random(rng, (3, 32, 2, 32))
    eight, four = (quantized_cache(1, 32, 2, 32, bits, q, pages=3) for bits in (8, 4))
    recent = {"k_recent": four.k_recent, "v_recent": four.v_recent}
    lengths = np.array([64], np.int32)
    for table, wrong in (([1, page, 0], True), ([0, 2, page], False)):
        table = np.array([table], dtype)
        for call in (
            lambda t=table: append(q, k, v, k_cache, v_cache, lengths, block_table=t),
            lambda t=table: append_quantized(q, k, v, *eight[:4], lengths, block_table=t),
            lambda t=table: append_quantized(q, k, v, *four[:4], lengths, block_table=t, **recent),
            lambda t=table: decode_attention(q, k_cache, v_cache, lengths, block_table=t),
            lambda t=table: decode_quantized(q, *eight[:4], lengths, block_table=t),
            lambda t=table: decode_quantized(q, *four[:4], lengths, block_table=t, **recent),
        ):
            if wrong:
                with pytest.raises(errors.DeviceAssertError, match="block_table: a page outside of the cache"):
                    call()
            else:
                call()


def test_errors(rng):
    q, k, v = new(rng, 1, 2, 2, 2, 16)
    caches = np.zeros((2, 1, 5, 2, 16), np.float32)
    with pytest.raises(ValueError, match="tables of both, or of neither"):
        append(q, k, v, *caches, np.array([4], np.int32), np.ones((8, 8), np.float32))
    with pytest.raises(ValueError, match="k_cache: expected shape"):
        append(q, k, v, *caches[..., :8], np.array([4], np.int32))
    with pytest.raises(ValueError, match="bits: expected 4 or 8"):
        quantized_cache(1, 100, 2, 64, 2, q)

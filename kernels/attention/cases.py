"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.attention import decode, decode_reference, flex, kernel, mods, quantized, reference
from kiln.kernels.attention.append import append, append_quantized
from kiln.kernels.case import Case


def _prefill(tokens, heads, k_heads, size, causal):
    def make(rng):
        shapes = {"q": heads, "k": k_heads, "v": k_heads}
        arrays = {n: rng.standard_normal((1, tokens, h, size), dtype=np.float32) for n, h in shapes.items()}
        return {**arrays, "causal": causal}

    return make


def _cache(batch, length, heads, k_heads, size):
    def make(rng):
        k, v = rng.standard_normal((2, batch, length, k_heads, size), dtype=np.float32)
        q = rng.standard_normal((batch, heads, size), dtype=np.float32)
        return {"q": q, "k": k, "v": v, "lengths": np.full(batch, length, np.int32)}

    return make


_FLOPS = 4 * 512 * 512 * 128 * 8
_SHAPE, _OURS, _THEIRS = "512 tokens, 8+2 heads of 128", kernel.attention, reference.attention
_WHOLE, _CAUSAL = _prefill(512, 8, 2, 128, False), _prefill(512, 8, 2, 128, True)
CASES = [
    Case("attention", _SHAPE, _WHOLE, _OURS, _THEIRS, flops=_FLOPS, length=512),
    Case("attention causal", _SHAPE, _CAUSAL, _OURS, _THEIRS, flops=_FLOPS // 2, length=512),
    Case(
        "decode_attention",
        "4 × 4096 cached, 32+8 heads of 128",
        _cache(4, 4096, 32, 8, 128),
        decode.decode_attention,
        decode_reference.decode_attention,
        bytes=2 * 4 * 4 * 4096 * 8 * 128,
        length=4096,
    ),
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for size in (64, 80, 256):
        q, k = np.empty((1, 512, 8, size), np.float16), np.empty((1, 512, 2, size), np.float16)
        name = f"attention float16 causal, heads of {size}"
        yield name, lambda q=q, k=k: kernel.attention(q, k, np.empty_like(k), causal=True, return_lse=True)
    for dtype in (np.float32, np.float16):
        q, k = np.empty((1, 512, 8, 128), dtype), np.empty((1, 512, 2, 128), dtype)
        for causal in (False, True):
            name = f"attention {np.dtype(dtype)}" + " causal" * causal
            yield name, lambda q=q, k=k, c=causal: kernel.attention(q, k, np.empty_like(k), causal=c, return_lse=True)
    q, k, v = (np.empty((1, 512, heads, n), np.float16) for heads, n in ((8, 192), (2, 192), (2, 128)))
    numbers, starts = np.empty(8, np.float32), np.empty(4, np.int32)
    yield "attention of heads of 192 and 128", lambda: kernel.attention(q, k, v)
    for name, terms in {
        "window": {"window": (100, 20)},
        "sinks": {"sinks": numbers, "causal": True},
        "softcap, slopes": {"softcap": 30.0, "alibi_slopes": numbers, "causal": True},
        "bias": {"bias": np.empty((1, 1, 512, 512), np.float16)},
    }.items():
        yield f"attention, {name}", lambda t=terms: kernel.attention(q[..., :128], k[..., :128], v, **t)
    ragged = q[0, :, :, :128], k[0, :, :, :128], v[0]
    yield "attention_varlen", lambda: kernel.attention_varlen(*ragged, starts, starts, 512, 512, causal=True)
    heads_first = tuple(x[..., :128].swapaxes(1, 2)[:, :2] for x in (q, k, v))
    yield "create_block_mask", lambda: flex.create_block_mask(mods.causal, None, None, 512, 512)
    mask = flex.BlockMask(
        (mods.documents,),
        (np.empty(512, np.int32),),
        (1, 1, 512, 512),
        (128, 128),
        np.empty((1, 1, 4), np.int32),
        np.empty((1, 1, 4), np.int32),
        np.empty((1, 1, 4, 2, 4), np.int32),
    )
    yield "flex_attention", lambda: flex.flex_attention(*heads_first, mods.alibi, mask, args=(numbers,))
    yield from _calls_of_decoding()


def _calls_of_decoding() -> Iterator[tuple[str, Callable[[], Any]]]:
    lengths, table = np.empty(4, np.int32), np.empty((4, 256), np.int32)
    for dtype in (np.float32, np.float16):
        q, k, pages = (np.empty(s, dtype) for s in ((4, 32, 128), (4, 4096, 8, 128), (1024, 16, 8, 128)))
        name = f"decode_attention {np.dtype(dtype)}"
        yield name, lambda q=q, k=k: decode.decode_attention(q, k, np.empty_like(k), lengths, return_lse=True)
        yield (
            name + " paged",
            lambda q=q, k=pages: decode.decode_attention(q, k, np.empty_like(k), lengths, block_table=table),
        )
    several = np.empty((4, 4, 32, 128), np.float16)
    k = np.empty((4, 4096, 8, 128), np.float16)
    yield (
        "decode_attention float16, 4 queries, window",
        lambda: decode.decode_attention(several, k, np.empty_like(k), lengths, window=1024),
    )
    q, k = np.empty((4, 1, 32, 128), np.float16), np.empty((4, 1, 8, 128), np.float16)
    v, k_cache, v_cache = np.empty_like(k), *(np.empty((4, 4096, 8, 128), np.float16) for _ in range(2))
    cos, sin = np.empty((4096, 64), np.float32), np.empty((4096, 64), np.float32)
    yield "append float16", lambda: append(q, k, v, k_cache, v_cache, lengths, cos, sin)
    for bits in (8, 4):
        cache = quantized.quantized_cache(4, 4096, 8, 128, bits, np.empty(0, np.float16))
        recent = {"k_recent": cache.k_recent, "v_recent": cache.v_recent}
        yield (
            f"append_quantized, {bits} bits",
            lambda c=cache, r=recent: append_quantized(q, k, v, *c[:4], lengths, cos, sin, **r),
        )
        yield (
            f"decode_quantized, {bits} bits",
            lambda c=cache, r=recent: quantized.decode_quantized(q[:, 0], *c[:4], lengths, return_lse=True, **r),
        )
        yield (
            f"decode_quantized, {bits} bits, 4 queries",
            lambda c=cache, r=recent: quantized.decode_quantized(several, *c[:4], lengths, **r),
        )
        pages = quantized.quantized_cache(4, 64, 8, 128, bits, np.empty(0, np.float16), pages=256)
        of_pages = {"k_recent": pages.k_recent, "v_recent": pages.v_recent, "block_table": table[:, :64]}
        yield (
            f"append_quantized, pages of {bits} bits",
            lambda c=pages, r=of_pages: append_quantized(q, k, v, *c[:4], lengths, cos, sin, **r),
        )
        yield (
            f"decode_quantized, pages of {bits} bits",
            lambda c=pages, r=of_pages: quantized.decode_quantized(q[:, 0], *c[:4], lengths, **r),
        )

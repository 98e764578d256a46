"""Attention: any length, grouped heads, causal alignment, log-sum-exp."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.attention import attention, reference


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

"""Attention in float64."""

import math

import numpy as np
from kiln.kernels.attention.decode_reference import decode_attention as decode_attention


def _softmax(score, sinks=None):
    """Weights and log-sum-exp over the last axis; rows of -inf give zeros and -inf. ``sinks``: logits (heads,) beside
    the scores (batch, heads, queries, tokens)."""
    sink = np.full((1, 1, 1, 1), -np.inf) if sinks is None else np.asarray(sinks, np.float64)[None, :, None, None]
    top = np.maximum(score.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    safe = np.where(np.isinf(top), 0.0, top)
    weight = np.exp(score - safe)
    total = weight.sum(axis=-1, keepdims=True) + np.exp(sink - safe)
    with np.errstate(divide="ignore"):
        return weight / np.where(total == 0, 1.0, total), (np.log(total) + top)[..., 0]


def seen(q_tokens, k_tokens, causal=False, window=None):
    """Which keys each query sees."""
    left, right = (-1, -1) if window is None else window
    distance = np.arange(k_tokens)[None, :] - (np.arange(q_tokens)[:, None] + (k_tokens - q_tokens))
    allowed = np.ones((q_tokens, k_tokens), bool)
    if causal or right >= 0:
        allowed &= distance <= (0 if causal else right)
    if left >= 0:
        allowed &= distance >= -left
    return allowed


def attention(
    q,
    k,
    v,
    causal=False,
    softmax_scale=None,
    window=None,
    softcap=0.0,
    sinks=None,
    alibi_slopes=None,
    bias=None,
    return_lse=False,
    score_mod=None,
    mask=None,
):
    """``score_mod`` and ``mask``: of (batch, heads, queries, tokens), the former a function of scores."""
    q, k, v = (np.moveaxis(np.asarray(x, np.float64), 2, 1) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    score = q @ np.swapaxes(k, -1, -2) * scale
    q_tokens, k_tokens = score.shape[-2:]
    if softcap:
        score = softcap * np.tanh(score / softcap)
    if bias is not None:
        score = score + np.asarray(bias, np.float64)
    if alibi_slopes is not None:
        distance = np.abs(np.arange(q_tokens)[:, None] + (k_tokens - q_tokens) - np.arange(k_tokens)[None, :])
        score = score - np.atleast_2d(np.asarray(alibi_slopes, np.float64))[:, :, None, None] * distance
    if score_mod is not None:
        score = score_mod(score)
    allowed = seen(q_tokens, k_tokens, causal, window)
    score = np.where(allowed if mask is None else allowed & mask, score, -np.inf)
    weight, lse = _softmax(score, sinks)
    y = np.moveaxis(weight @ v, 1, 2)
    return (y, lse) if return_lse else y


def attention_backward(q, k, v, dout, causal=False, softmax_scale=None):
    """Gradients of q, k and v: each product of ``attention``, differentiated."""
    q, k, v, dout = (np.moveaxis(np.asarray(x, np.float64), 2, 1) for x in (q, k, v, dout))
    shared, group = k.shape, q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    score = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        q_tokens, k_tokens = score.shape[-2:]
        allowed = np.arange(k_tokens)[None, :] <= np.arange(q_tokens)[:, None] + (k_tokens - q_tokens)
        score = np.where(allowed, score, -np.inf)
    weight, _ = _softmax(score)
    dweight = dout @ np.swapaxes(v, -1, -2)
    # The softmax of a row: each weight less what all of them together take back.
    dscore = weight * (dweight - (weight * dweight).sum(axis=-1, keepdims=True))
    dq = dscore @ k * scale
    dk, dv = np.swapaxes(dscore, -1, -2) @ q * scale, np.swapaxes(weight, -1, -2) @ dout
    dk, dv = (x.reshape(shared[0], shared[1], group, *shared[2:]).sum(axis=2) for x in (dk, dv))
    return tuple(np.moveaxis(x, 1, 2) for x in (dq, dk, dv))


def attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, *_, alibi_slopes=None, return_lse=False, **terms):
    """Rows of no sequence are zeros."""
    y, lse = np.zeros((*q.shape[:2], v.shape[2])), np.zeros((q.shape[1], q.shape[0]))
    slopes = None if alibi_slopes is None else np.asarray(alibi_slopes)
    for i in range(len(cu_seqlens_q) - 1):
        queries, keys = (slice(c[i], c[i + 1]) for c in (cu_seqlens_q, cu_seqlens_k))
        own = slopes[i] if slopes is not None and slopes.ndim == 2 else slopes
        arrays = (x[None] for x in (q[queries], k[keys], v[keys]))
        part, part_lse = attention(*arrays, alibi_slopes=own, return_lse=True, **terms)
        y[queries], lse[:, queries] = part[0], part_lse[0]
    return (y, lse) if return_lse else y

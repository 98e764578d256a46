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


def _scores(q, k, softmax_scale=None, softcap=0.0, alibi_slopes=None, bias=None):
    """Scores (batch, heads, queries, tokens) of q and k with heads in front, and the derivative of the cap."""
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    score = q @ np.swapaxes(k, -1, -2) * scale
    q_tokens, k_tokens = score.shape[-2:]
    bend = 1.0
    if softcap:
        bend = 1 / np.cosh(score / softcap) ** 2
        score = softcap * np.tanh(score / softcap)
    if bias is not None:
        score = score + np.asarray(bias, np.float64)
    if alibi_slopes is not None:
        distance = np.abs(np.arange(q_tokens)[:, None] + (k_tokens - q_tokens) - np.arange(k_tokens)[None, :])
        score = score - np.atleast_2d(np.asarray(alibi_slopes, np.float64))[:, :, None, None] * distance
    return score, bend


def _heads_in_front(q, k, v):
    """Arrays in float64 with heads in front, heads of keys repeated for the queries that share them."""
    q, k, v = (np.moveaxis(np.asarray(x, np.float64), 2, 1) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    return q, np.repeat(k, group, axis=1), np.repeat(v, group, axis=1), group


def attention(q, k, v, causal=False, window=None, sinks=None, return_lse=False, score_mod=None, mask=None, **terms):
    """``score_mod`` and ``mask``: of (batch, heads, queries, tokens), the former a function of scores. ``terms``: of
    ``_scores``."""
    q, k, v, _ = _heads_in_front(q, k, v)
    score, _ = _scores(q, k, **terms)
    if score_mod is not None:
        score = score_mod(score)
    allowed = seen(*score.shape[-2:], causal, window)
    score = np.where(allowed if mask is None else allowed & mask, score, -np.inf)
    weight, lse = _softmax(score, sinks)
    y = np.moveaxis(weight @ v, 1, 2)
    return (y, lse) if return_lse else y


def attention_backward(
    q,
    k,
    v,
    dout,
    causal=False,
    window=None,
    sinks=None,
    score_mod=None,
    mask=None,
    dbias=False,
    dsinks=False,
    **terms,
):
    """Gradients of q, k and v: each product of ``attention``, differentiated; followed by those of a bias and of sinks.
    ``score_mod``: a function of scores that also returns its derivative."""
    shared = k.shape[2]
    q, k, v, group = _heads_in_front(q, k, v)
    dout = np.moveaxis(np.asarray(dout, np.float64), 2, 1)
    score, bend = _scores(q, k, **terms)
    if score_mod is not None:
        score, bend = score_mod(score)
    allowed = seen(*score.shape[-2:], causal, window)
    weight, lse = _softmax(np.where(allowed if mask is None else allowed & mask, score, -np.inf), sinks)
    dweight = dout @ np.swapaxes(v, -1, -2)
    # The derivative of the softmax of a row: each weight, minus what the normalisation takes back.
    taken = (weight * dweight).sum(axis=-1, keepdims=True)
    dscore = weight * (dweight - taken)
    also = []
    if dbias:
        alike = tuple(axis for axis, side in enumerate(terms["bias"].shape) if side == 1)
        also.append(dscore.sum(axis=alike, keepdims=True))
    if dsinks:
        also.append(-(np.exp(np.asarray(sinks, np.float64)[:, None] - lse) * taken[..., 0]).sum(axis=(0, 2)))
    dscore = dscore * bend
    scale = terms.get("softmax_scale")
    dscore = dscore * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    dk, dv = np.swapaxes(dscore, -1, -2) @ q, np.swapaxes(weight, -1, -2) @ dout
    dk, dv = (x.reshape(x.shape[0], shared, group, *x.shape[2:]).sum(axis=2) for x in (dk, dv))
    return (*(np.moveaxis(x, 1, 2) for x in (dscore @ k, dk, dv)), *also)


def attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, *_, alibi_slopes=None, return_lse=False, **terms):
    """Rows that belong to no sequence are zeros."""
    y, lse = np.zeros((*q.shape[:2], v.shape[2])), np.zeros((q.shape[1], q.shape[0]))
    slopes = None if alibi_slopes is None else np.asarray(alibi_slopes)
    for i in range(len(cu_seqlens_q) - 1):
        queries, keys = (slice(c[i], c[i + 1]) for c in (cu_seqlens_q, cu_seqlens_k))
        own = slopes[i] if slopes is not None and slopes.ndim == 2 else slopes
        arrays = (x[None] for x in (q[queries], k[keys], v[keys]))
        part, part_lse = attention(*arrays, alibi_slopes=own, return_lse=True, **terms)
        y[queries], lse[:, queries] = part[0], part_lse[0]
    return (y, lse) if return_lse else y


def attention_varlen_backward(q, k, v, dout, cu_seqlens_q, cu_seqlens_k, alibi_slopes=None, dsinks=False, **terms):
    """Rows that belong to no sequence are zeros."""
    found = tuple(np.zeros(x.shape) for x in (q, k, v))
    of_sinks = np.zeros(q.shape[1])
    slopes = None if alibi_slopes is None else np.asarray(alibi_slopes)
    for i in range(len(cu_seqlens_q) - 1):
        queries, keys = (slice(c[i], c[i + 1]) for c in (cu_seqlens_q, cu_seqlens_k))
        own = slopes[i] if slopes is not None and slopes.ndim == 2 else slopes
        arrays = (x[None] for x in (q[queries], k[keys], v[keys], dout[queries]))
        *parts, last = attention_backward(*arrays, alibi_slopes=own, dsinks=dsinks, **terms)
        if dsinks:
            of_sinks += last
        else:
            parts.append(last)
        for whole, place, part in zip(found, (queries, keys, keys), parts, strict=True):
            whole[place] = part[0]
    return (*found, of_sinks) if dsinks else found

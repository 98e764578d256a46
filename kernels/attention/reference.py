"""Attention in float64."""

import math

import numpy as np
from kiln.kernels.attention.decode_reference import decode_attention as decode_attention


def _softmax(score):
    """Weights and log-sum-exp over the last axis; rows of -inf give zeros and -inf."""
    top = score.max(axis=-1, keepdims=True, initial=-np.inf)
    weight = np.exp(score - np.where(np.isinf(top), 0.0, top))
    total = weight.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return weight / np.where(total == 0, 1.0, total), (np.log(total) + top)[..., 0]


def attention(q, k, v, causal=False, softmax_scale=None, return_lse=False):
    q, k, v = (np.moveaxis(np.asarray(x, np.float64), 2, 1) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    score = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        q_tokens, k_tokens = score.shape[-2:]
        allowed = np.arange(k_tokens)[None, :] <= np.arange(q_tokens)[:, None] + (k_tokens - q_tokens)
        score = np.where(allowed, score, -np.inf)
    weight, lse = _softmax(score)
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

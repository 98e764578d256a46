"""Decoding over a KV cache in float64."""

import math

import numpy as np


def gathered(cache, lengths, block_table=None):
    """The cached tokens of each sequence: arrays (tokens, heads, size)."""
    if block_table is None:
        return [x[:length] for x, length in zip(cache, lengths, strict=True)]
    return [
        cache[table].reshape(-1, *cache.shape[2:])[:length] for table, length in zip(block_table, lengths, strict=True)
    ]


def decode_attention(q, k, v, lengths, block_table=None, window=None, softmax_scale=None, return_lse=False, **_):
    """Query i is token length - queries + i of its sequence; one that sees nothing gives zeros and -inf."""
    many = np.asarray(q, np.float64) if q.ndim == 4 else np.asarray(q, np.float64)[:, None]
    batch, queries, heads, size = many.shape
    y, lse = np.zeros(many.shape), np.full((batch, heads, queries), -np.inf)
    scale = 1 / math.sqrt(size) if softmax_scale is None else softmax_scale
    caches = zip(gathered(k, lengths, block_table), gathered(v, lengths, block_table), strict=True)
    for b, (keys, values) in enumerate(caches):
        group = heads // keys.shape[1]
        for i in range(queries):
            end = len(keys) - queries + i + 1
            begin = 0 if window is None else max(0, end - window)
            for h in range(heads):
                if end <= begin:
                    continue
                score = np.asarray(keys[begin:end, h // group], np.float64) @ many[b, i, h] * scale
                top = score.max()
                weight = np.exp(score - top)
                lse[b, h, i] = np.log(weight.sum()) + top
                y[b, i, h] = weight @ np.asarray(values[begin:end, h // group], np.float64) / weight.sum()
    if q.ndim == 3:
        y, lse = y[:, 0], lse[..., 0]
    return (y, lse) if return_lse else y

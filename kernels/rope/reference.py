"""Rotary position embedding in float64."""

import numpy as np


def _rotate(x, cos, sin, interleaved):
    x = np.array(x, np.float64)
    half = cos.shape[-1]
    cos, sin = cos[:, :, None, :], sin[:, :, None, :]
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    a, b = x[..., first].copy(), x[..., second].copy()
    x[..., first] = a * cos - b * sin
    x[..., second] = b * cos + a * sin
    return x


def rope(q, k, cos, sin, positions=None, offset=0, interleaved=False):
    batches, tokens = q.shape[:2]
    if positions is None:
        positions = int(np.asarray(offset).reshape(-1)[0]) + np.arange(tokens)
    positions = np.broadcast_to(positions, (batches, tokens))
    cosine, sine = np.asarray(cos, np.float64)[positions], np.asarray(sin, np.float64)[positions]
    return tuple(None if x is None else _rotate(x, cosine, sine, interleaved) for x in (q, k))

"""The norms in float64. The reference does not round where a model does: tests allow for those roundings."""

import numpy as np


def _double(x):
    return np.asarray(x, np.float64)


def rms_norm(x, weight, eps=1e-6, **_):
    x = _double(x)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * _double(weight)


def residual_rms_norm(x, residual, weight, eps=1e-6, round_sum=True, **_):
    total = _double(x) + _double(residual)
    seen = _double(total.astype(residual.dtype)) if round_sum else total
    return rms_norm(seen, weight, eps), total


def layer_norm(x, weight, bias=None, eps=1e-5, **_):
    x = _double(x)
    centred = x - x.mean(axis=-1, keepdims=True)
    result = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * _double(weight)
    return result if bias is None else result + _double(bias)

"""SwiGLU and GELU in float64. numpy has no erf, so the standard library's is applied to each element."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def swiglu(gate, up=None, layout="halves"):
    gate = np.asarray(gate, np.float64)
    if up is None:
        half = gate.shape[-1] // 2
        gate, up = (
            (gate[..., ::2], gate[..., 1::2]) if layout == "interleaved" else (gate[..., :half], gate[..., half:])
        )
    with np.errstate(over="ignore"):
        return gate / (1 + np.exp(-gate)) * np.asarray(up, np.float64)


def bias_gelu(x, bias=None, approximate="none"):
    x = np.asarray(x, np.float64)
    if bias is not None:
        x = x + np.asarray(bias, np.float64)
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2))) if x.size else x

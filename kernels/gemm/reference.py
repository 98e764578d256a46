"""The product and everything around it, in float64."""

import math

import numpy as np


def _gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def _silu(x):
    return 0.5 * x * (1 + np.tanh(0.5 * x))


EPILOGUES = {
    None: lambda x: x,
    "gelu": _gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": _silu,
    "swiglu": lambda x: _silu(x[..., 0::2]) * x[..., 1::2],
}


def matmul(a, b, *, alpha=1.0, beta=0.0, c=None, bias=None, epilogue=None, residual=None, row_scale=None, **_):
    value = alpha * (np.asarray(a, np.float64) @ np.asarray(b, np.float64))
    if row_scale is not None:
        value = value * np.asarray(row_scale, np.float64)[:, None]
    if c is not None and beta != 0:
        value = value + beta * np.asarray(c, np.float64)
    if bias is not None:
        value = value + np.asarray(bias, np.float64)
    value = EPILOGUES[epilogue](value)
    return value if residual is None else value + np.asarray(residual, np.float64)


def linear(x, w, bias=None, **terms):
    return matmul(x, np.asarray(w, np.float64).T, bias=bias, **terms)

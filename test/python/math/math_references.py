"""Values with more precision than the type under test: numpy's 80-bit functions, and series where numpy has none."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from math_harness import DTYPES

L = np.longdouble
ROOT_PI = np.sqrt(np.arctan(L(1)) * 4)


def _erf_series(x: np.ndarray) -> np.ndarray:
    """2/sqrt(pi) e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!!: all terms of one sign."""
    term = x * 2 / ROOT_PI * np.exp(-x * x)
    total = term.copy()
    for n in range(1, 300):
        term = term * (2 * x * x / (2 * n + 1))
        total = total + term
    return total


def _erfc_fraction(x: np.ndarray) -> np.ndarray:
    f = x.copy()
    for n in range(400, 0, -1):
        f = x + (n / L(2)) / f
    return np.exp(-x * x) / ROOT_PI / f


def erf(x: np.ndarray) -> np.ndarray:
    a = np.abs(x)
    positive = np.where(a < 6.6, _erf_series(np.minimum(a, L(6.6))), L(1))
    return np.where(np.isnan(x), x, np.copysign(positive, x))


def erfc(x: np.ndarray) -> np.ndarray:
    a = np.abs(x)
    positive = np.where(a < 1.2, 1 - _erf_series(np.minimum(a, L(1.2))), _erfc_fraction(np.clip(a, L(1.2), L(120))))
    return np.where(np.isnan(x), x, np.where(x < 0, 2 - positive, positive))


UNARY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": erf, "erfc": erfc, "cbrt": np.cbrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt,
}  # fmt: skip
#: References for f32 arguments that are doubles.
SINGLE = {
    "erf": lambda x: np.array([math.erf(v) for v in x.tolist()]),
    "erfc": lambda x: np.array([math.erfc(v) for v in x.tolist()]),
}
BINARY = {"powf": np.power, "atan2": np.arctan2}
#: Operations whose result is exact.
EXACT = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "roundeven": np.rint, "absf": np.abs,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + L(0.5)), x),
}  # fmt: skip


def _to_odd(x: np.ndarray, narrow: np.dtype) -> np.ndarray:
    """x rounded to odd, so that rounding the result once more equals one rounding of x."""
    y = x.astype(narrow)
    back = y.astype(x.dtype)
    unsigned = np.dtype(f"u{narrow.itemsize}")
    i = y.view(unsigned)
    inexact = (np.abs(back) > np.abs(x)) | (np.abs(back) < np.abs(x))
    moved = np.where(np.abs(back) > np.abs(x), i - unsigned.type(1), i + unsigned.type(1))
    return np.where(((i & unsigned.type(1)) == 0) & inexact, moved, i).view(narrow)


LARGEST = {t: float(ml_dtypes.finfo(DTYPES[t]).max) for t in ("f8E4M3FN", "f8E5M2")}


def narrowed(x: np.ndarray, t: str) -> np.ndarray:
    """x rounded once to nearest even, whatever its type (integers included). 8-bit types saturate; infinity does too.

    Saturating first gives the same: what lies beyond the largest number never rounds to a smaller one.
    """
    if t in LARGEST:
        if x.dtype.kind != "f":  # also bf16, which numpy does not class as a float; wide enough for the clamp
            x = x.astype(np.float64)
        x = np.clip(x, -LARGEST[t], LARGEST[t])
    if t in ("f32", "f64") and x.dtype.kind != "f":
        return x.astype(DTYPES[t])
    if t == "f32":
        return x.astype(np.float32)
    if x.dtype.kind != "f":
        x = _to_odd(x.astype(L), np.dtype(np.float64)) if x.dtype.itemsize == 8 else x.astype(np.float64)
    if x.dtype == np.float64:
        x = _to_odd(x, np.dtype(np.float32))
    return x.astype(DTYPES[t])


def toward_zero(x: np.ndarray, t: str) -> np.ndarray:
    """x without the bits that do not fit into t; never NaN or infinity from a finite number."""
    dtype = DTYPES[t]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    y = narrowed(x, t)
    back, exact = y.astype(np.float64), x.astype(np.float64)
    away = np.abs(back) > np.abs(exact)
    return np.where(away, y.view(unsigned) - unsigned.type(1), y.view(unsigned)).astype(unsigned).view(dtype)

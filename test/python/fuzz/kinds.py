"""Element types: storage in numpy, type promotion, rounding exactly once, and samples of each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Kind:
    """One element type. `precision`, `least` (the exponent of the smallest normal) and `largest` apply to floats."""

    name: str
    dtype: Any
    bits: int
    sort: str  # bool, int, uint, float
    precision: int = 0
    least: int = 0
    largest: float = 0.0

    @property
    def is_float(self) -> bool:
        return self.sort == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type; bool is not."""
        return self.sort in ("int", "uint")

    @property
    def is_fp8(self) -> bool:
        return self.is_float and self.bits == 8

    @property
    def is_narrow(self) -> bool:
        """A float whose operations are carried out in f32."""
        return self.is_float and self.bits < 32

    @property
    def text(self) -> str:
        return f"kl.{self.name}"

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.sort == "int" else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - (self.sort == "int"))) - 1

    def __repr__(self) -> str:
        return self.name


INT1 = Kind("int1", np.dtype(np.bool_), 1, "bool")
SIGNED = [Kind(f"int{b}", np.dtype(f"int{b}"), b, "int") for b in (8, 16, 32, 64)]
UNSIGNED = [Kind(f"uint{b}", np.dtype(f"uint{b}"), b, "uint") for b in (8, 16, 32, 64)]
INT8, INT16, INT32, INT64 = SIGNED
UINT8, UINT16, UINT32, UINT64 = UNSIGNED
F64 = Kind("float64", np.dtype(np.float64), 64, "float", 53, -1022, float(np.finfo(np.float64).max))
F32 = Kind("float32", np.dtype(np.float32), 32, "float", 24, -126, float(np.finfo(np.float32).max))
F16 = Kind("float16", np.dtype(np.float16), 16, "float", 11, -14, 65504.0)
BF16 = Kind("bfloat16", np.dtype(ml_dtypes.bfloat16), 16, "float", 8, -126, float(ml_dtypes.finfo("bfloat16").max))
E4M3 = Kind("float8e4nv", np.dtype(ml_dtypes.float8_e4m3fn), 8, "float", 4, -6, 448.0)
E5M2 = Kind("float8e5", np.dtype(ml_dtypes.float8_e5m2), 8, "float", 3, -14, 57344.0)
INTEGERS = [*SIGNED, *UNSIGNED]
FLOATS = [F32, F64, F16, BF16, E4M3, E5M2]
KINDS = [INT1, *INTEGERS, *FLOATS]
BY_NAME = {k.name: k for k in KINDS}


class Undefined(Exception):
    """The program has no defined result (or none that this evaluation can give): the generator draws something else."""


# --- where types meet -------------------------------------------------------------------------------------------------


def meet(a: Kind, b: Kind, division: bool = False) -> Kind:
    """The common type of two tensors. Quotients and remainders of floats below 32 bits are taken in f32."""
    for wide in (F64, F32):
        if wide in (a, b):
            return wide
    if F16 in (a, b):
        return F32 if division else F16
    if BF16 in (a, b):
        return BF16 if a == b and not division else F32
    if a.is_fp8 and b.is_fp8:
        return F32 if division else a if a == b else F16
    if a.is_float or b.is_float:
        raise Undefined(f"{a} and {b} do not meet")
    if division and (a.sort == "int") != (b.sort == "int"):
        raise Undefined("a quotient of mixed signs")
    # C's usual arithmetic conversions; a bool counts as unsigned.
    if (a.sort == "int") == (b.sort == "int"):
        return a if a.bits > b.bits else b
    unsigned, signed = (b, a) if a.sort == "int" else (a, b)
    return unsigned if unsigned.bits >= signed.bits else signed


RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def literal_kind(value: Any) -> Kind:
    """The type of a plain number on its own."""
    if isinstance(value, bool):
        return INT1
    if isinstance(value, int):
        return next(k for k in (INT32, UINT32, INT64, UINT64) if k.low <= value <= k.high)
    size = abs(value)
    return F32 if size == 0 or not np.isfinite(size) or 2.0**-126 <= size <= F32.largest else F64


def meet_literal(a: Kind, value: Any, division: bool = False) -> Kind:
    """The common type of a tensor and a plain number: the tensor's, unless the number's sort ranks higher."""
    own = literal_kind(value)
    if RANK[own.sort] <= RANK[a.sort]:
        result = F32 if division and a.is_narrow else a
    else:
        result = meet(a, own, division)
    if not result.is_float and not result.low <= int(value) <= result.high:
        raise Undefined("the number does not fit the type it adopts")
    return result


# --- rounding ---------------------------------------------------------------------------------------------------------


def _to_odd(x: Array, narrow: Any) -> Array:
    """x rounded to odd in a narrower type (inexact results get an odd last bit), so that rounding again acts as
    rounding once."""
    y = x.astype(narrow)
    back = y.astype(x.dtype)
    bits = y.view(np.dtype(f"u{y.dtype.itemsize}"))
    away = np.abs(back) > np.abs(x)
    inexact = away | (np.abs(back) < np.abs(x))
    one = bits.dtype.type(1)
    moved = np.where(away, bits - one, bits + one)
    return np.where(((bits & one) == 0) & inexact, moved, bits).view(y.dtype)


def rounded(x: Array, kind: Kind) -> Array:
    """Floats (or integers) rounded once to `kind`, to nearest even; fp8 saturates, infinity included."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if x.dtype.kind in "iub":
            x = x.astype(np.longdouble)
        if kind == F64 or x.dtype == kind.dtype:
            return x.astype(kind.dtype)
        if kind.is_fp8:
            x = np.clip(x.astype(np.float64 if x.dtype.itemsize <= 8 else x.dtype), -kind.largest, kind.largest)
        if kind == F32:
            return x.astype(np.float32)
        if x.dtype == np.longdouble:
            x = _to_odd(x, np.float64)
        if x.dtype == np.float64:
            x = _to_odd(x, np.float32)
        return x.astype(kind.dtype)


def toward_zero(x: Array, kind: Kind) -> Array:
    y = rounded(x, kind)
    unsigned = np.dtype(f"u{kind.dtype.itemsize}")
    away = np.abs(y.astype(np.float64)) > np.abs(x.astype(np.float64))
    return np.where(away, y.view(unsigned) - unsigned.type(1), y.view(unsigned)).astype(unsigned).view(kind.dtype)


def ulp(x: Array, kind: Kind) -> Array:
    """The distance between neighbours in `kind` at each magnitude, as float64 (at the top, that of the last two)."""
    with np.errstate(all="ignore"):
        size = np.abs(np.asarray(x, np.float64))
        exponent = np.where(np.isfinite(size) & (size > 0), np.frexp(size)[1] - 1, kind.least)
        return np.ldexp(1.0, np.maximum(exponent, kind.least) - (kind.precision - 1))


def wide(x: Array) -> Array:
    """Data of a float kind in the type in which its operations are carried out."""
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


# --- samples ----------------------------------------------------------------------------------------------------------


def sample(kind: Kind, count: int, draw: random.Random, data: np.random.Generator) -> Array:
    """Values of a kind, drawn from one of several distributions."""
    if kind == INT1:
        return data.integers(0, 2, count).astype(bool)
    if kind.is_integer:
        if draw.random() < 0.3:
            values = data.integers(kind.low, kind.high, count, dtype=kind.dtype, endpoint=True)
            ends = np.array([kind.low, kind.high, 0, 1], kind.dtype)
            values[: min(4, count)] = ends[: min(4, count)]
            data.shuffle(values)
            return values
        low = 0 if kind.sort == "uint" else -draw.choice([1, 9, 50, 128])
        return data.integers(low, draw.choice([2, 9, 50, 128]), count).astype(kind.dtype)
    style = draw.choices(["whole", "quarters", "normal", "wide", "special"], [5, 3, 5, 1, 1])[0]
    if style == "whole":
        values = data.integers(-8, 9, count).astype(np.float64)
    elif style == "quarters":
        values = data.integers(-64, 65, count) / 4
    elif style == "normal":
        values = data.standard_normal(count)
    elif style == "wide":
        reach = {8: 4, 16: 10, 32: 30, 64: 90}[kind.bits]
        values = data.standard_normal(count) * 2.0 ** data.integers(-reach, reach, count)
    else:
        values = data.standard_normal(count) * 4
        # Never -0: which zero a maximum or a sum gives is unspecified, and few programs would be left to compare.
        ends = [np.inf, -np.inf, np.nan, 2.0**kind.least, 2.0 ** (kind.least - kind.precision + 1), kind.largest]
        if kind == E4M3:
            ends = [e for e in ends if not np.isinf(e)]
        values[data.integers(0, count, 3)] = draw.choices(ends, k=3)
    result = rounded(values, kind)
    return np.where(result == 0, np.zeros_like(result), result)

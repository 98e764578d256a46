"""Arguments that find mistakes: every binade, the ends of the range, and midpoints of narrow numbers."""

from __future__ import annotations

import numpy as np
from math_harness import DTYPES, NARROW

BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8}


def specials(dtype: np.dtype) -> np.ndarray:
    info = np.finfo(dtype)
    ends = [info.max, info.tiny, info.smallest_subnormal, np.nextafter(info.tiny, dtype.type(0))]
    values = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, np.inf, *ends]
    near_one = [np.nextafter(dtype.type(1), dtype.type(k)) for k in (0, 2)]
    near_half = [np.nextafter(dtype.type(0.5), dtype.type(k)) for k in (0, 2)]
    values = [*values, *near_one, *near_half]
    return np.array([*values, *(-v for v in values), np.nan], dtype)


def real(t: str, count: int, seed: int = 1) -> np.ndarray:
    """About `count` numbers of f32 or f64: random bits, intervals, neighbours of multiples of pi/2, specials."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[t]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    parts = [rng.integers(0, 2 ** BITS[t], count // 3, unsigned).view(dtype)]
    intervals = [(-1, 1), (-10, 10), (-110, 110), (-750, 750), (0.5, 2), (0.99, 1.01), (-6e4, 6e4), (-1e12, 1e12)]
    parts += [rng.uniform(low, high, count // 16).astype(dtype) for low, high in intervals]
    parts.append((np.arange(-count // 20, count // 20) * (np.pi / 2)).astype(dtype))
    return np.concatenate([*parts, specials(dtype)])


def every(t: str) -> np.ndarray:
    """All numbers of a narrow type."""
    return np.arange(2 ** BITS[t], dtype=f"u{BITS[t] // 8}").view(DTYPES[t])


def rounding(t: str) -> np.ndarray:
    """Values that are hard to round to a narrow type: its numbers, the midpoints, and their neighbours in t."""
    if t in NARROW:
        return every(t)
    dtype = DTYPES[t]
    parts = [real(t, 120_000), np.array([464, 465, 480, 57344, 61440, 65519, 65520, 3.4e38], dtype)]
    for narrow in NARROW:
        numbers = every(narrow).astype(np.float64)
        numbers = np.sort(numbers[np.isfinite(numbers)])
        middle = (numbers[1:] + numbers[:-1]) / 2
        for exact in (numbers.astype(dtype), middle.astype(dtype)):
            parts += [exact, np.nextafter(exact, dtype.type(np.inf)), np.nextafter(exact, dtype.type(-np.inf))]
        if t == "f64":  # off the midpoint by less than f32 can represent: rounding twice would go wrong here
            parts += [middle * (1 + 2.0**-k) for k in (30, 52)] + [middle * (1 - 2.0**-k) for k in (30, 53)]
    return np.concatenate(parts)


def integers(t: str, count: int = 100_000, seed: int = 2) -> np.ndarray:
    """All values of up to 16 bits; for wider types random magnitudes and midpoints of bf16 numbers."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[t]
    width = dtype.itemsize * 8
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if width <= 16:
        return np.arange(2**width, dtype=unsigned).view(dtype)
    bits = rng.integers(0, 2**width, count, unsigned)
    small = bits >> rng.integers(0, width, count).astype(unsigned)
    with np.errstate(invalid="ignore"):
        numbers = every("bf16").astype(np.float64)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    middle = (numbers[1:] + numbers[:-1]) / 2
    middle = middle[np.abs(middle) < 2.0 ** (width - 1)].astype(dtype)
    ends = np.array([0, 1, -1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    return np.concatenate([bits.view(dtype), small.view(dtype), middle, middle + 1, middle - 1, ends])

"""Random inputs and derived tolerances for the kernel tests.

The rule: an output rounded once to a type of unit roundoff ``u`` from a value computed in float32 over ``length`` terms
of total magnitude ``scale`` differs from the exact value by at most

    u · |exact|  +  GROWTH · sqrt(length) · u32 · scale

The first term is the final rounding; the second is float32's error growth over a sum, taken as that of a random walk
with a factor for the constants hidden in it (a handful of roundings per term, 2 ulp functions). Inputs are exact: the
reference sees the rounded inputs, in float64. ``roundings`` counts further roundings to the output type on the way
(a cast before the weight is multiplied, a residual sum that is rounded).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from kiln import errors

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# The smallest step near zero (subnormals): below it, no relative error can be required.
TINY = {"float64": 5e-324, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
GROWTH = 8.0


def dtype_name(array: Any) -> str:
    return str(array.dtype)


def random(rng: np.random.Generator, shape: Any, dtype: str = "float32", scale: float = 1.0) -> np.ndarray:
    """Normal numbers rounded to ``dtype``."""
    return np.asarray(rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(DTYPES[dtype])


def strided(array: np.ndarray, step: int = 2) -> np.ndarray:
    """The same values with a row stride of ``step`` rows and a gap: a view that is not contiguous."""
    padded = np.full((*array.shape[:-1], array.shape[-1] * step + 3), 77, array.dtype)
    view = padded[..., : array.shape[-1]]
    view[...] = array
    return view


def assert_close(out: np.ndarray, exact: np.ndarray, *, length: int = 1, scale: Any = None, roundings: int = 0) -> None:
    """Checks ``out`` against the exact float64 values by the rule in this module's docstring."""
    exact = np.asarray(exact, np.float64)
    assert out.shape == exact.shape, f"expected shape {exact.shape}, got {out.shape}"
    name = dtype_name(out)
    values = np.asarray(out).astype(np.float64)
    if scale is None:
        finite = np.abs(exact[np.isfinite(exact)])
        scale = finite.max() if finite.size else 0.0
    unit = ROUNDOFF[name]
    with np.errstate(invalid="ignore"):
        bound = (1 + 2 * roundings) * unit * np.abs(exact) + TINY[name]
        bound = bound + GROWTH * np.sqrt(length) * max(ROUNDOFF["float32"], 0.0) * np.asarray(scale)
        if name == "float64":
            bound = (1 + roundings) * unit * np.abs(exact) * GROWTH * np.sqrt(length) + unit * np.asarray(scale)
        same = (values == exact) | (np.isnan(values) & np.isnan(exact))
        wrong = ~same & ~(np.abs(values - exact) <= bound)
    if wrong.any():
        at = np.unravel_index(np.argmax(np.where(wrong, np.abs(values - exact), -1)), exact.shape)
        raise AssertionError(
            f"{int(wrong.sum())} of {exact.size} elements outside the bound; worst at {tuple(map(int, at))}: "
            f"expected {exact[at]:.9g} ± {np.broadcast_to(bound, exact.shape)[at]:.3g}, got {values[at]:.9g}"
        )


@contextlib.contextmanager
def counters_of(module: Any, monkeypatch: Any) -> Iterator[list[Any]]:
    """The counters of each launch that a module of the library makes; some must be made, and be zero in the end."""
    made: list[Any] = []
    zeros = module.zeros
    monkeypatch.setattr(module, "zeros", lambda count, like: made.append(zeros(count, like)) or made[-1])
    yield made
    assert made and not any(bool(each.any()) for each in made)


class Refusing:
    """In place of a kernel: notes grid and options of each launch, and has too little of something for some."""

    def __init__(self, lacks: str, refuses: Callable[[tuple[int, ...], dict[str, Any]], bool]):
        self.lacks, self.refuses = lacks, refuses
        self.asked: list[tuple[tuple[int, ...], dict[str, Any]]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def run(*args: Any, **options: Any) -> None:
            self.asked.append((grid, options))
            if self.refuses(grid, options):
                raise errors.ResourceError(self.lacks, 2, 1)

        return run

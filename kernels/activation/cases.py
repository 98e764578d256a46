"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.activation import kernel, reference
from kiln.kernels.case import Case, blank, blank_like


def _random(shape, *names):
    return lambda rng: {name: rng.standard_normal(shape, dtype=np.float32) for name in names}


def _gelu(rows, n, approximate):
    def make(rng):
        return {
            "x": rng.standard_normal((rows, n), dtype=np.float32),
            "bias": rng.standard_normal(n, dtype=np.float32),
            "approximate": approximate,
        }

    return make


ROWS, COLUMNS = 512, 14336
SIZE = f"{ROWS}×{COLUMNS} float32"
CASES = [
    Case(
        "swiglu",
        SIZE,
        _random((ROWS, COLUMNS), "gate", "up"),
        kernel.swiglu,
        reference.swiglu,
        bytes=12 * ROWS * COLUMNS,
    ),
    Case(
        "swiglu interleaved",
        SIZE,
        lambda rng: _random((ROWS, 2 * COLUMNS), "gate")(rng) | {"layout": "interleaved"},
        kernel.swiglu,
        reference.swiglu,
        bytes=12 * ROWS * COLUMNS,
    ),
    Case(
        "bias_gelu",
        "512×4096 float32",
        _gelu(512, 4096, "none"),
        kernel.bias_gelu,
        reference.bias_gelu,
        bytes=8 * 512 * 4096,
    ),
    Case(
        "bias_gelu tanh",
        "512×4096 float32",
        _gelu(512, 4096, "tanh"),
        kernel.bias_gelu,
        reference.bias_gelu,
        bytes=8 * 512 * 4096,
    ),
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16", "bfloat16"):
        for rows, n in ((1, 14336), (2048, 14336), (2048, 11008)):
            x, both, size = blank((rows, n), dtype), blank((rows, 2 * n), dtype), f"{rows}×{n} {dtype}"
            yield f"swiglu {size}", lambda x=x: kernel.swiglu(x, blank_like(x))
            yield f"swiglu halves {size}", lambda x=both: kernel.swiglu(x)
            yield f"swiglu interleaved {size}", lambda x=both: kernel.swiglu(x, layout="interleaved")
        for n in (4096, 16384):
            x, bias, size = blank((2048, n), dtype), blank((n,), dtype), f"2048×{n} {dtype}"
            yield f"bias_gelu {size}", lambda x=x, b=bias: kernel.bias_gelu(x, b)
            yield f"bias_gelu tanh {size}", lambda x=x, b=bias: kernel.bias_gelu(x, b, approximate="tanh")

"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank, blank_like
from kiln.kernels.norm import kernel, reference


def _inputs(rows: int, n: int, *names: str):
    def make(rng):
        arrays = {name: rng.standard_normal((rows, n), dtype=np.float32) for name in ("x", *names)}
        return {**arrays, "weight": rng.standard_normal(n, dtype=np.float32)}

    return make


def _cases(rows: int, n: int) -> list[Case]:
    size, both = f"{rows}×{n} float32", 4 * rows * n
    return [
        Case("rms_norm", size, _inputs(rows, n), kernel.rms_norm, reference.rms_norm, bytes=2 * both, length=n),
        Case(
            "residual_rms_norm",
            size,
            _inputs(rows, n, "residual"),
            kernel.residual_rms_norm,
            reference.residual_rms_norm,
            bytes=4 * both,
            length=n,
        ),
        Case("layer_norm", size, _inputs(rows, n), kernel.layer_norm, reference.layer_norm, bytes=2 * both, length=n),
    ]


CASES = [case for rows, n in ((4096, 4096), (2048, 896)) for case in _cases(rows, n)]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    shapes = [(1, 4096), (4096, 64), (2048, 896), (2048, 3584), (16384, 4096), (16384, 8192)]
    longer = [(4096, 131072), (4, 262144), (2, 1 << 21)]
    for dtype in ("float32", "float16", "bfloat16"):
        for rows, n in shapes + longer * (dtype == "float16"):
            x, vector, size = blank((rows, n), dtype), blank((n,), dtype), f"{rows}×{n} {dtype}"
            yield f"rms_norm {size}", lambda x=x, w=vector: kernel.rms_norm(x, w)
            yield f"residual_rms_norm {size}", lambda x=x, w=vector: kernel.residual_rms_norm(x, blank_like(x), w)
            yield f"layer_norm {size}", lambda x=x, w=vector: kernel.layer_norm(x, w, blank_like(w))
    for n, dtype in itertools.product((11008, 18944, 24576), ("float16", "bfloat16")):
        x, vector = blank((4096, n), dtype), blank((n,), dtype)
        yield f"layer_norm 4096×{n} {dtype}", lambda x=x, w=vector: kernel.layer_norm(x, w, blank_like(w))
    x, vector = blank((2048, 4096), "float16"), blank((4096,), "float16")
    yield "rms_norm cast before", lambda: kernel.rms_norm(x, vector, cast="before")
    yield "layer_norm without bias", lambda: kernel.layer_norm(x, vector)

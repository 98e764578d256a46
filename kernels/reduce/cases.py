"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank
from kiln.kernels.reduce import kernel, reference

CASES = [
    Case(
        "sum_all",
        "16M float32",
        lambda rng: {"x": rng.random(1 << 24, dtype=np.float32)},
        kernel.sum_all,
        reference.sum_all,
        bytes=4 << 24,
        length=1 << 24,
    ),
    Case(
        "topk 8",
        "1024×4096 float32",
        lambda rng: {"x": rng.standard_normal((1024, 4096), dtype=np.float32), "k": 8},
        kernel.topk,
        reference.topk,
        bytes=4 * 1024 * 4096,
    ),
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16"):
        yield f"sum_all {dtype}", lambda dtype=dtype: kernel.sum_all(blank((1 << 24,), dtype))
        for n in (64, 4096):
            yield f"topk of {n} {dtype}", lambda n=n, dtype=dtype: kernel.topk(blank((1024, n), dtype), 8)

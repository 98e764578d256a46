"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank, blank_like
from kiln.kernels.elementwise import kernel, reference


def _inputs(n: int):
    return lambda rng: {name: rng.standard_normal(n, dtype=np.float32) for name in ("x", "y")}


CASES = [
    Case("add", f"{n >> 20}M float32", _inputs(n), kernel.add, reference.add, bytes=12 * n) for n in (1 << 20, 16 << 20)
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16", "bfloat16"):
        for n in (1000, 1 << 24):
            x = blank((n,), dtype)
            yield f"add {n} {dtype}", lambda x=x: kernel.add(x, blank_like(x))

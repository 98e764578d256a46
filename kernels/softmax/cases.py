"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank
from kiln.kernels.softmax import kernel, reference


def _inputs(rows: int, n: int):
    return lambda rng: {"x": rng.standard_normal((rows, n), dtype=np.float32)}


CASES = [
    Case(
        "softmax",
        f"{rows}×{n} float32",
        _inputs(rows, n),
        kernel.softmax,
        reference.softmax,
        bytes=8 * rows * n,
        length=n,
    )
    for rows, n in ((4096, 4096), (2048, 896))
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16"):
        for rows, n in (
            (1, 4096),
            (4096, 64),
            (2048, 896),
            (4096, 4096),
            (8192, 32768),
            (2048, 131072),
            (4, 262144),
            (2, 1 << 21),
        ):
            x = blank((rows, n), dtype)
            yield f"softmax {rows}×{n} {dtype}", lambda x=x: kernel.softmax(x)

"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank
from kiln.kernels.embedding import kernel, reference

TOKENS, VOCABULARY, SIZE = 2048, 32000, 2048


def _inputs(rng):
    return {"ids": rng.integers(0, VOCABULARY, TOKENS), "table": rng.standard_normal((VOCABULARY, SIZE), np.float32)}


CASES = [
    Case(
        "embedding",
        f"{TOKENS} of {VOCABULARY}×{SIZE} float32",
        _inputs,
        kernel.embedding,
        reference.embedding,
        bytes=8 * TOKENS * SIZE,
    )
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16"):
        table = blank((32000, 4096), dtype)
        yield f"embedding {dtype}", lambda t=table: kernel.embedding(blank((2048,), "int64"), t)

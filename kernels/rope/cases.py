"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank
from kiln.kernels.rope import kernel, reference


def _inputs(tokens: int, q_heads: int, k_heads: int, size: int, interleaved: bool):
    def make(rng):
        cos, sin = kernel.rope_tables(tokens, size, 500000.0)
        q = rng.standard_normal((1, tokens, q_heads, size), dtype=np.float32)
        k = rng.standard_normal((1, tokens, k_heads, size), dtype=np.float32)
        return {"q": q, "k": k, "cos": cos, "sin": sin, "interleaved": interleaved}

    return make


CASES = [
    Case(
        f"rope {style}",
        "2048 tokens, 32+8 heads of 128",
        _inputs(2048, 32, 8, 128, style == "interleaved"),
        kernel.rope,
        reference.rope,
        bytes=8 * 2048 * 40 * 128,
    )
    for style in ("half", "interleaved")
]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16", "bfloat16"):
        for tokens in (1, 2048):
            q, k = blank((1, tokens, 32, 128), dtype), blank((1, tokens, 8, 128), dtype)
            cos = blank((8192, 64), "float32")
            for interleaved in (False, True):
                name = f"rope {tokens} tokens {dtype}" + " interleaved" * interleaved
                yield name, lambda q=q, k=k, cos=cos, i=interleaved: kernel.rope(q, k, cos, cos, interleaved=i)
    q, cos = blank((2, 16, 8, 96), "float16"), blank((64, 32), "float32")
    yield "rope of a part, by positions", lambda: kernel.rope(q, None, cos, cos, positions=blank((2, 16), "int64"))

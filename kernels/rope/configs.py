"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.rope import kernel, reference


def _inputs(tokens: int, q_heads: int, k_heads: int, size: int, interleaved: bool):
    def make(rng):
        cos, sin = kernel.rope_tables(tokens, size, 500000.0)
        q = rng.standard_normal((1, tokens, q_heads, size), dtype=np.float32)
        k = rng.standard_normal((1, tokens, k_heads, size), dtype=np.float32)
        return {"q": q, "k": k, "cos": cos, "sin": sin, "interleaved": interleaved}

    return make


CASES = [
    Case(f"rope {style}", "2048 tokens, 32+8 heads of 128", _inputs(2048, 32, 8, 128, style == "interleaved"),
         kernel.rope, reference.rope, bytes=8 * 2048 * 40 * 128)
    for style in ("half", "interleaved")
]  # fmt: skip

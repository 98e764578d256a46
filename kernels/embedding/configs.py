"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.embedding import kernel, reference

TOKENS, VOCABULARY, SIZE = 2048, 32000, 2048


def _inputs(rng):
    return {"ids": rng.integers(0, VOCABULARY, TOKENS), "table": rng.standard_normal((VOCABULARY, SIZE), np.float32)}


CASES = [
    Case("embedding", f"{TOKENS} of {VOCABULARY}×{SIZE} float32", _inputs, kernel.embedding, reference.embedding,
         bytes=8 * TOKENS * SIZE)
]  # fmt: skip

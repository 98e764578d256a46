"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.softmax import kernel, reference


def _inputs(rows: int, n: int):
    return lambda rng: {"x": rng.standard_normal((rows, n), dtype=np.float32)}


CASES = [
    Case("softmax", f"{rows}×{n} float32", _inputs(rows, n), kernel.softmax, reference.softmax, bytes=8 * rows * n,
         length=n)
    for rows, n in ((4096, 4096), (2048, 896))
]  # fmt: skip

"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.elementwise import kernel, reference


def _inputs(n: int):
    return lambda rng: {name: rng.standard_normal(n, dtype=np.float32) for name in ("x", "y")}


CASES = [
    Case("add", f"{n >> 20}M float32", _inputs(n), kernel.add, reference.add, bytes=12 * n) for n in (1 << 20, 16 << 20)
]

"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.reduce import kernel, reference

CASES = [
    Case("sum_all", "16M float32", lambda rng: {"x": rng.random(1 << 24, dtype=np.float32)}, kernel.sum_all,
         reference.sum_all, bytes=4 << 24, length=1 << 24),
    Case("topk 8", "1024×4096 float32",
         lambda rng: {"x": rng.standard_normal((1024, 4096), dtype=np.float32), "k": 8}, kernel.topk, reference.topk,
         bytes=4 * 1024 * 4096),
]  # fmt: skip

"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.norm import kernel, reference


def _inputs(rows: int, n: int, *names: str):
    def make(rng):
        arrays = {name: rng.standard_normal((rows, n), dtype=np.float32) for name in ("x", *names)}
        return {**arrays, "weight": rng.standard_normal(n, dtype=np.float32)}

    return make


def _cases(rows: int, n: int) -> list[Case]:
    size, both = f"{rows}×{n} float32", 4 * rows * n
    return [
        Case("rms_norm", size, _inputs(rows, n), kernel.rms_norm, reference.rms_norm, bytes=2 * both, length=n),
        Case("residual_rms_norm", size, _inputs(rows, n, "residual"), kernel.residual_rms_norm,
             reference.residual_rms_norm, bytes=4 * both, length=n),
        Case("layer_norm", size, _inputs(rows, n), kernel.layer_norm, reference.layer_norm, bytes=2 * both, length=n),
    ]  # fmt: skip


CASES = [case for rows, n in ((4096, 4096), (2048, 896)) for case in _cases(rows, n)]

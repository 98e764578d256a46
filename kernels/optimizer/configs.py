"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.case import Case
from kiln.kernels.optimizer import kernel, reference


def _inputs(n):
    def make(rng):
        arrays = {name: rng.standard_normal(n, dtype=np.float32) for name in ("parameter", "gradient", "moment")}
        return {**arrays, "square": rng.random(n, dtype=np.float32), "step": np.array([10])}

    return make


def _run(**arrays):
    kernel.adamw(**arrays)
    return arrays["parameter"], arrays["moment"], arrays["square"]


CASES = [Case("adamw", "4M float32", _inputs(1 << 22), _run, reference.adamw, bytes=28 << 22)]

"""Sizes that the demo and the benchmarks run."""

import numpy as np
from kiln.kernels.activation import kernel, reference
from kiln.kernels.case import Case


def _random(shape, *names):
    return lambda rng: {name: rng.standard_normal(shape, dtype=np.float32) for name in names}


def _gelu(rows, n, approximate):
    def make(rng):
        return {"x": rng.standard_normal((rows, n), dtype=np.float32),
                "bias": rng.standard_normal(n, dtype=np.float32), "approximate": approximate}  # fmt: skip

    return make


ROWS, COLUMNS = 512, 14336
SIZE = f"{ROWS}×{COLUMNS} float32"
CASES = [
    Case("swiglu", SIZE, _random((ROWS, COLUMNS), "gate", "up"), kernel.swiglu, reference.swiglu,
         bytes=12 * ROWS * COLUMNS),
    Case("swiglu interleaved", SIZE, lambda rng: _random((ROWS, 2 * COLUMNS), "gate")(rng) | {"layout": "interleaved"},
         kernel.swiglu, reference.swiglu, bytes=12 * ROWS * COLUMNS),
    Case("bias_gelu", "512×4096 float32", _gelu(512, 4096, "none"), kernel.bias_gelu, reference.bias_gelu,
         bytes=8 * 512 * 4096),
    Case("bias_gelu tanh", "512×4096 float32", _gelu(512, 4096, "tanh"), kernel.bias_gelu, reference.bias_gelu,
         bytes=8 * 512 * 4096),
]  # fmt: skip

"""The CPU target against numpy with the same threads, in one run: ``python bench/cpu.py [--write] [--only NAME]``.

numpy's matmul uses its BLAS on every core this process may use; its elementwise functions use one. Both are what a
numpy user gets on this machine.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable

# OpenBLAS's threads spin for tens of milliseconds after a call, on the cores that Kiln's next run needs: its matmul
# measured 0.6× numpy instead of 1.3×. With this setting, read when numpy loads, they sleep at once; numpy's times stay.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import measure
from kiln.kernels.elementwise import add
from kiln.kernels.gemm import matmul
from kiln.kernels.norm import rms_norm
from kiln.kernels.softmax import softmax

# The required speed of each row, Kiln over numpy.
TARGETS = {"add": 0.9, "softmax": 3.0, "rms_norm": 3.0, "matmul": 0.5}


def _softmax_numpy(x, out):
    np.subtract(x, x.max(axis=1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=1, keepdims=True), out=out)


def _rms_norm_numpy(x, weight, out):
    np.multiply(x, 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(1e-6)), out=out)
    np.multiply(out, weight, out=out)


Functions = dict[str, Callable[[], object]]


def comparisons() -> dict[str, tuple[str, float, str, Callable[[], tuple[Functions, np.ndarray, np.ndarray]]]]:
    """Name → size, work, unit, and a function that makes the two runs and their outputs."""
    rng = np.random.default_rng(0)

    def _add():
        x, y = rng.standard_normal((2, 1 << 26), dtype=np.float32)
        one, two = np.empty_like(x), np.empty_like(x)
        return {"kiln": lambda: add(x, y, out=one), "numpy": lambda: np.add(x, y, out=two)}, one, two

    def _softmax():
        x = rng.standard_normal((4096, 4096), dtype=np.float32)
        one, two = np.empty_like(x), np.empty_like(x)
        return {"kiln": lambda: softmax(x, out=one), "numpy": lambda: _softmax_numpy(x, two)}, one, two

    def _rms_norm():
        x, weight = rng.standard_normal((4096, 4096), dtype=np.float32), rng.standard_normal(4096, dtype=np.float32)
        one, two = np.empty_like(x), np.empty_like(x)
        run = {"kiln": lambda: rms_norm(x, weight, out=one), "numpy": lambda: _rms_norm_numpy(x, weight, two)}
        return run, one, two

    def _matmul():
        a, b = rng.standard_normal((2, 1024, 1024), dtype=np.float32)
        one, two = np.empty_like(a), np.empty_like(a)
        return {"kiln": lambda: matmul(a, b, out=one), "numpy": lambda: np.matmul(a, b, out=two)}, one, two

    return {
        "add": ("64M float32", 12.0 * (1 << 26), "GB/s", _add),
        "softmax": ("4096×4096 float32", 8.0 * (1 << 24), "GB/s", _softmax),
        "rms_norm": ("4096×4096 float32", 8.0 * (1 << 24), "GB/s", _rms_norm),
        "matmul": ("1024×1024×1024 float32", 2.0 * (1 << 30), "GFLOP/s", _matmul),
    }


def compare(name: str, seconds: float = 2.0) -> tuple[list[measure.Row], float]:
    """The two rows of one comparison and Kiln's speed over numpy's; the outputs are checked before timing."""
    size, work, unit, make = comparisons()[name]
    functions, one, two = make()
    for function in functions.values():
        function()
    error = np.linalg.norm((one - two).ravel()) / np.linalg.norm(two.ravel())
    if not error < 1e-5:
        raise AssertionError(f"{name}: outputs differ by {error:.1e}")
    table = measure.rows(name, size, measure.interleaved(functions, seconds), work, unit)
    return table, table[1].milliseconds / table[0].milliseconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write bench/results/cpu.csv")
    parser.add_argument("--only", choices=list(TARGETS))
    arguments = parser.parse_args()
    table, missed = [], 0
    for name in [arguments.only] if arguments.only else TARGETS:
        both, ratio = compare(name)
        table += both
        missed += ratio < TARGETS[name]
        for row in both:
            print(f"{row.kernel:10} {row.size:24} {row.provider:6} {row.milliseconds:9.3f} ms "
                  f"[{row.p20:.3f}, {row.p80:.3f}]  {row.speed:8.1f} {row.unit}")  # fmt: skip
        print(f"{'':10} {ratio:.2f}× numpy (asked: {TARGETS[name]}×)")
    if arguments.write:
        print(measure.write("cpu", table))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

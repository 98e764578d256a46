"""The CUDA C baselines as functions of tensors: compiled through `kiln.cuda`, launched by the same runtime as Kiln."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from cases import Unavailable

FOLDER = pathlib.Path(__file__).parent / "cuda"


def source(file: str) -> str:
    return (FOLDER / "half.cuh").read_text() + (FOLDER / file).read_text()


def options(**defines: int) -> list[str]:
    return [f"-D{name}={value}" for name, value in defines.items()]


@functools.cache
def load(file: str, name: str, defines: tuple[tuple[str, int], ...]) -> Any:
    """The compiled kernel; `kernel[grid, block](*arguments)` launches it on the current stream."""
    try:
        import kiln.cuda
    except ImportError as error:
        raise Unavailable(f"kiln.cuda: {error}") from error
    return kiln.cuda.compile(source(file), name, options(**dict(defines)))


def _kernel(file: str, name: str, **defines: int) -> Any:
    return load(file, name, tuple(sorted(defines.items())))


def row_shape(n: int) -> dict[str, int]:
    """Threads, and 16-byte vectors per thread, for a row of n float16 values: up to 4, otherwise the row is read
    twice."""
    vectors = n // 8
    for each in (1, 2, 4):
        threads = -(-vectors // each // 32) * 32
        if threads <= 512 or (each == 4 and threads <= 1024):
            return {"THREADS": max(64, threads), "VECTORS": each, "RELOAD": 0}
    return {"THREADS": 1024, "VECTORS": 1, "RELOAD": 1}


# Every file is compiled whole, so the naive kernels need values for the macros of the others.
_ANY_ROW = {"THREADS": 256, "VECTORS": 1, "RELOAD": 0}


def rms_norm(shape: tuple[int, ...], variant: str) -> Callable[..., tuple[Any, ...]]:
    rows, n = shape
    if variant == "naive":
        kernel, block, count = _kernel("rms_norm.cu", "rms_norm_naive", **_ANY_ROW), 256, n
    else:
        if n % 8:
            raise Unavailable(f"rows of {n} elements are not whole 16-byte vectors")
        defines = row_shape(n)
        kernel, block, count = _kernel("rms_norm.cu", "rms_norm_vector", **defines), defines["THREADS"], n // 8
    bound, count_ = kernel[(rows,), (block,)], np.int32(count)

    def run(x: Any, weight: Any, out: Any, eps: float) -> tuple[Any, ...]:
        bound(x, weight, out, count_, np.float32(eps))
        return (out,)

    return run


def swiglu(shape: tuple[int, ...], variant: str, threads: int = 256, unroll: int = 2) -> Callable[..., tuple[Any, ...]]:
    n = shape[0] * shape[1]
    kernel = _kernel("swiglu.cu", f"swiglu_{variant}", THREADS=threads, UNROLL=unroll)
    count = n if variant == "naive" else n // 8
    each = threads if variant == "naive" else threads * unroll
    bound, count_ = kernel[(-(-count // each),), (threads,)], np.int64(count)

    def run(gate: Any, up: Any, out: Any) -> tuple[Any, ...]:
        bound(gate, up, out, count_)
        return (out,)

    return run


def rope(tokens: int, heads: int, size: int, variant: str, threads: int = 256, each: int = 4) -> Any:
    half = size // 2
    kernel = _kernel("rope.cu", f"rope_{variant}", THREADS=threads, HALF=half, HEADS=heads, PER_THREAD=each)
    if variant == "naive":
        bound, last = kernel[(tokens,), (threads,)], (np.int32(heads), np.int32(half))
    else:
        total = tokens * (heads // each) * (half // 8)
        bound, last = kernel[(-(-total // threads),), (threads,)], (np.int32(tokens),)

    def run(q: Any, cos: Any, sin: Any, out: Any) -> tuple[Any, ...]:
        bound(q, cos, sin, out, *last)
        return (out,)

    return run

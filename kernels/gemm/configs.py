"""Tile sizes by shape, and the sizes that the demo and the benchmarks run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kiln.kernels.machine import CPU, Machine, options

if TYPE_CHECKING:
    from kiln.kernels.case import Case


def tiles(m: int, n: int, k: int, machine: Machine = CPU) -> dict[str, int]:
    """Tile sides for an m×n×k product: square tiles that fit the first-level caches, narrow ones for few rows.

    On a GPU a shorter step along K keeps both operands and the accumulator in the registers of four warps.
    """
    block_m = 64 if m > 32 else 32 if m > 16 else 16
    block_n = 64 if n > 32 else 32 if n > 16 else 16
    step = 32 if machine.gpu or k <= 32 else 64
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": step, "GROUP": 8}


def launch(tile: dict[str, int], machine: Machine) -> dict[str, Any]:
    """Launch options for a tile: 32 accumulators a thread at most."""
    if not machine.gpu:
        return options()
    return options(num_warps=max(1, min(8, tile["BLOCK_M"] * tile["BLOCK_N"] // 1024)))


def __getattr__(name: str) -> list[Case]:
    if name == "CASES":
        return _cases()
    raise AttributeError(name)


def _cases() -> list[Case]:
    # kernel.py takes its tile sizes from here, so its functions are named only when cases are asked for.
    import numpy as np
    from kiln.kernels.case import Case
    from kiln.kernels.gemm import kernel, reference

    def inputs(m, n, k):
        return lambda rng: {
            "a": rng.standard_normal((m, k), dtype=np.float32),
            "b": rng.standard_normal((k, n), dtype=np.float32),
        }

    return [
        Case("matmul", "1024×1024×1024 float32", inputs(1024, 1024, 1024), kernel.matmul, reference.matmul,
             flops=2 << 30, length=1024),
        Case("matmul_split_k", "16×1024×8192 float32", inputs(16, 1024, 8192), kernel.matmul_split_k, reference.matmul,
             flops=2 * 16 * 1024 * 8192, length=8192),
    ]  # fmt: skip


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on arrays that hold nothing."""
    import numpy as np
    from kiln.kernels.gemm import kernel

    for dtype in (np.float32, np.float16):
        for m, n, k in ((1024, 1024, 1024), (16, 1024, 8192)):
            a, b = np.empty((m, k), dtype), np.empty((n, k), dtype).T
            name = f"{m}×{n}×{k} {np.dtype(dtype)}"
            yield f"matmul {name}", lambda a=a, b=b: kernel.matmul(a, b)
            yield f"matmul_split_k {name}", lambda a=a, b=b: kernel.matmul_split_k(a, b)

"""Runs each form of each library kernel once on small arrays, for compute-sanitizer to watch:

    compute-sanitizer --tool memcheck --error-exitcode 1 python test/gpu/sanitize.py

The arrays are numpy's, staged through device memory by the runtime, so that nothing but Kiln's kernels runs; with
torch, AdamW's lists run too, as their table contains device addresses. Results are also compared with float64.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("KILN_TARGET", "cuda")
os.environ.setdefault("KILN_STAGE_ARRAYS", "1")

import numpy as np
from kiln.kernels import (
    activation,
    attention,
    decode_attention,
    elementwise,
    embedding,
    gemm,
    norm,
    optimizer,
    reduce,
    rope,
    rope_tables,
    softmax,
)
from kiln.kernels.activation import reference as activation_reference
from kiln.kernels.attention import reference as attention_reference
from kiln.kernels.gemm.configs import GemmPlan
from kiln.kernels.machine import of_target
from kiln.kernels.norm import reference as norm_reference
from kiln.kernels.optimizer import reference as optimizer_reference
from kiln.kernels.reduce import reference as reduce_reference
from kiln.kernels.rope import reference as rope_reference
from kiln.kernels.rows import RowPlan
from kiln.kernels.softmax import reference as softmax_reference

rng = np.random.default_rng(0)


class Run(NamedTuple):
    """A library function, its float64 reference, and their arguments; `own`: arguments for the library function
    only."""

    name: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = {}
    own: dict[str, Any] = {}


def normal(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


def row_plans() -> Iterator[tuple[int, RowPlan | None]]:
    """Lengths of rows with their plan: the default, several rows per block, several blocks per row, clusters."""
    yield from ((n, None) for n in (1, 33, 896, 4096, 5003))
    yield 100, RowPlan(128, 4, 4)
    yield 1000, RowPlan(128, num_warps=4, loop=True)
    for cluster in (2, 8):
        if cluster <= of_target("cuda").largest_cluster:
            yield 4000, RowPlan(4096, 1, 4, cluster)


def rows() -> Iterator[Run]:
    for n, plan in row_plans():
        x, residual, weight, bias = normal(7, n), normal(7, n), normal(n), normal(n)
        about, own = f"{n} {plan or ''}", {"plan": plan}
        yield Run(f"softmax {about}", softmax, softmax_reference.softmax, (x,), {}, own)
        yield Run(f"rms_norm {about}", norm.rms_norm, norm_reference.rms_norm, (x, weight), {}, own)
        yield Run(f"residual_rms_norm {about}", norm.residual_rms_norm, norm_reference.residual_rms_norm,
                  (x, residual, weight), {}, own)  # fmt: skip
        yield Run(f"layer_norm {about}", norm.layer_norm, norm_reference.layer_norm, (x, weight, bias), {}, own)


def elements() -> Iterator[Run]:
    swiglu, gelu = activation_reference.swiglu, activation_reference.bias_gelu
    for n in (1, 5003):
        x, y, both, wide = normal(3, n), normal(3, n), normal(3, 2 * n), normal(n, dtype=np.float32)
        yield Run(f"add {n}", elementwise.add, lambda x, y: x.astype(np.float64) + y, (x, y))
        yield Run(f"swiglu {n}", activation.swiglu, swiglu, (x, y))
        for layout in ("halves", "interleaved"):
            yield Run(f"swiglu {layout} {n}", activation.swiglu, swiglu, (both,), {"layout": layout})
        for form in ("none", "tanh"):
            yield Run(f"bias_gelu {form} {n}", activation.bias_gelu, gelu, (x, y[0].copy()), {"approximate": form})
        yield Run(f"sum_all {n}", reduce.sum_all, reduce_reference.sum_all, (wide,))
    q, k, tables = normal(2, 5, 6, 64), normal(2, 5, 2, 64), rope_tables(16, 64)
    for interleaved in (False, True):
        yield Run(f"rope {interleaved}", rope, rope_reference.rope, (q, k, *tables), {"interleaved": interleaved})
    ids, table = rng.integers(0, 50, 33), normal(50, 300)
    yield Run("embedding", embedding, lambda ids, table: table[ids].astype(np.float64), (ids, table))
    moment, square = normal(3, 1711, dtype=np.float32), np.abs(normal(3, 1711, dtype=np.float32))
    arrays = (normal(3, 1711), normal(3, 1711), moment, square, 3)
    yield Run("adamw", adamw, optimizer_reference.adamw, arrays)


def adamw(*arrays: Any) -> tuple[Any, Any, Any]:
    optimizer.adamw(*arrays)
    return arrays[0], arrays[2], arrays[3]


def products() -> Iterator[Run]:
    for n, top in ((7, 3), (1000, 10)):
        yield Run(f"topk {n}", reduce.topk, reduce_reference.topk, (normal(3, n, dtype=np.float32), top))
    a, b = normal(70, 130, dtype=np.float32), normal(130, 50, dtype=np.float32)
    yield Run("matmul", gemm.matmul, lambda a, b: a.astype(np.float64) @ b, (a, b))
    yield Run("matmul, splits", gemm.matmul, lambda a, b: a.astype(np.float64) @ b, (a, b), {}, {"splits": 3})
    for plan in (GemmPlan(32, 32, 32, "fma", workers=7, described=False),
                 GemmPlan(32, 32, 32, "fma", splits=3, reduce="last", described=False)):  # fmt: skip
        yield Run(f"matmul {plan}", gemm.matmul, lambda a, b: a.astype(np.float64) @ b, (a, b), {}, {"plan": plan})
    q, k, v = (normal(1, 70, heads, 32, dtype=np.float32) for heads in (4, 2, 2))
    yield Run("attention", attention, attention_reference.attention, (q, k, v), {"causal": True})
    caches = [normal(2, 100, 2, 32, dtype=np.float32) for _ in range(2)]
    arguments = (normal(2, 4, 32, dtype=np.float32), *caches, np.array([70, 9], np.int32))
    yield Run("decode_attention", decode_attention, attention_reference.decode_attention, arguments, {},
              {"splits": 2})  # fmt: skip


def lists_on_the_device() -> None:
    try:
        import torch
    except ImportError:
        return
    if not torch.cuda.is_available():
        return
    lists = [[torch.ones(n, device="cuda") for n in (7, 2048, 5000)] for _ in range(4)]
    optimizer.adamw(*lists, 3)
    torch.cuda.synchronize()
    print("adamw lists: run")


def main() -> int:
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    failures = 0
    for run in (*rows(), *elements(), *products()):
        if only not in run.name:
            continue
        # The reference runs first, as some functions write their arguments.
        exact = run.reference(*run.arguments, **run.options)
        result = run.function(*run.arguments, **run.options, **run.own)
        pairs = zip(result, exact, strict=True) if isinstance(result, tuple) else ((result, exact),)
        worst = max(
            float(np.linalg.norm(np.asarray(out, np.float64) - want)) / (float(np.linalg.norm(want)) or 1.0)
            for out, want in pairs
        )
        failures += not worst < 2e-3
        print(f"{run.name}: error {worst:.1e}" + ("" if worst < 2e-3 else "  WRONG"), flush=True)
    if not only:
        lists_on_the_device()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

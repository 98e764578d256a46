"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank
from kiln.kernels.gemm import configs, kernel, reference
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import type_name


def _inputs(m, n, k):
    return lambda rng: {
        "a": rng.standard_normal((m, k), dtype=np.float32),
        "b": rng.standard_normal((k, n), dtype=np.float32),
    }


def _split(a, b, **given):
    return kernel.matmul(a, b, splits=4, **given)


CASES = [
    Case(
        "matmul",
        "1024×1024×1024 float32",
        _inputs(1024, 1024, 1024),
        kernel.matmul,
        reference.matmul,
        flops=2 << 30,
        length=1024,
    ),
    Case(
        "matmul, 4 splits",
        "16×1024×8192 float32",
        _inputs(16, 1024, 8192),
        _split,
        reference.matmul,
        flops=2 * 16 * 1024 * 8192,
        length=8192,
    ),
]


def _cut(a: Any, b: Any, splits: int = 1, **given: Any) -> Any:
    """The product by the plan for the current machine, with its tiles cut: into splits, or into shares per
    multiprocessor."""
    machine = machine_of(a)
    problem = configs.Problem(
        a.shape[-2],
        b.shape[-1],
        a.shape[-1],
        dtype=type_name(a.dtype),
        precision=given.get("precision", "ieee"),
        accumulator=given.get("accumulator", "f32"),
        addends=int("c" in given),
    )
    if configs.engine(problem, machine) == "wgmma":
        made = next(p for p in configs.cut_plans(problem, machine) if (p.splits > 1) == (splits > 1))
    else:
        change: dict[str, Any] = {"reduce": "last"} if splits > 1 else {"workers": machine.processors or 7}
        made = replace(configs.plan(problem, machine, splits), **change)
    return kernel.matmul(a, b, plan=made, **given)


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    for dtype in ("float32", "float16"):
        for m, n, k in ((1024, 1024, 1024), (16, 1024, 8192)):
            a, b = blank((m, k), dtype), blank((n, k), dtype).T
            name = f"{m}×{n}×{k} {dtype}"
            yield f"matmul {name}", lambda a=a, b=b: kernel.matmul(a, b)
            yield f"matmul {name}, splits", lambda a=a, b=b: kernel.matmul(a, b, splits=4)
    for m, accumulator in itertools.product((16, 4096), ("f32", "fast")):
        a, b = blank((m, 4096), "float8_e4m3fn"), blank((4096, 4096), "float8_e4m3fn").T
        yield (
            f"matmul {m}×4096×4096 float8_e4m3fn, {accumulator}",
            lambda a=a, b=b, sums=accumulator: kernel.matmul(a, b, accumulator=sums),
        )
    a, b = blank((8, 1024, 512), "float16"), blank((8, 512, 1024), "float16")
    yield "matmul 8×1024×1024×512 float16", lambda a=a, b=b: kernel.matmul(a, b)
    a, b = blank((1024, 1024), "float32"), blank((1024, 1024), "float32").T
    yield "matmul 1024×1024×1024 float32, tf32", lambda a=a, b=b: kernel.matmul(a, b, precision="tf32")
    a, b = blank((1024, 1024), "int8"), blank((1024, 1024), "int8").T
    yield "matmul 1024×1024×1024 int8", lambda a=a, b=b: kernel.matmul(a, b)
    weights, bias = blank((28672, 4096), "float16"), blank((28672,), "float16")
    for m in (1, 4):
        x = blank((m, 4096), "float16")
        yield f"linear {m}×28672×4096 float16", lambda x=x: kernel.linear(x, weights)
    x, wide = blank((2, 4096), "float32"), blank((28672, 4096), "float32")
    yield "linear 2×28672×4096 float32", lambda x=x: kernel.linear(x, wide)
    x, c = blank((256, 4096), "float16"), blank((256, 28672), "float16")
    yield "linear 256×28672×4096 float16, swiglu", lambda: kernel.linear(x, weights, bias, epilogue="swiglu")
    yield "matmul 256×28672×4096 float16, c", lambda: kernel.matmul(x, weights.T, alpha=2.0, beta=3.0, c=c)
    for dtype, given in (("float32", {}), ("float32", {"precision": "tf32"}), ("int8", {}), ("float8_e4m3fn", {})):
        a, b = blank((1100, 4096), dtype), blank((2112, 4096), dtype).T
        name = f"matmul 1100×2112×4096 {', '.join([dtype, *given.values()])}"
        yield f"{name}, shares", lambda a=a, b=b, given=given: _cut(a, b, **given)
    a, c = blank((1100, 4096), "float16"), blank((1100, 2112), "float16")
    b = blank((2112, 4096), "float16").T
    yield "matmul 1100×2112×4096 float16, shares, c", lambda: _cut(a, b, c=c, beta=2.0)
    few, weights_16 = blank((16, 8192), "float16"), blank((1024, 8192), "float16").T
    yield "matmul 16×1024×8192 float16, shares", lambda: _cut(few, weights_16)
    yield "matmul 16×1024×8192 float16, splits, last", lambda: _cut(few, weights_16, splits=4)

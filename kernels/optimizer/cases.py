"""The cases that the demo runs, and the calls that checks of compiled code make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from kiln.kernels.case import Case, blank, blank_like
from kiln.kernels.optimizer import kernel, reference
from kiln.kernels.optimizer.lists import TensorLists


def _inputs(n):
    def make(rng):
        arrays = {name: rng.standard_normal(n, dtype=np.float32) for name in ("parameter", "gradient", "moment")}
        return {**arrays, "square": rng.random(n, dtype=np.float32), "step": np.array([10])}

    return make


def _run(**arrays):
    kernel.adamw(**arrays)
    return arrays["parameter"], arrays["moment"], arrays["square"]


CASES = [Case("adamw", "4M float32", _inputs(1 << 22), _run, reference.adamw, bytes=28 << 22)]


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that reach every form of the family's kernels, on uninitialised arrays."""
    step = blank((1,), "int64")
    for dtype, moments in (("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")):
        for n in (1000, 1 << 24):
            p, m, master = (
                blank((n,), dtype),
                blank((n,), moments),
                None if dtype == "float32" else blank((n,), "float32"),
            )
            size = f"{n} {dtype}/{moments}"
            yield (
                f"adamw {size}",
                lambda p=p, m=m, w=master: kernel.adamw(p, blank_like(p), m, blank_like(m), step, master=w),
            )
            yield (
                f"adamw lists {size}",
                lambda p=p, m=m, w=master: kernel.adamw_lists(
                    TensorLists([p], [blank_like(p)], [m], [blank_like(m)], None if w is None else [w]), step
                ),
            )

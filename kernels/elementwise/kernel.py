"""Vector add: the smallest kernel, and the one that measures memory bandwidth."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import flat
from kiln.kernels.flat import FlatPlan
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, SIGNED, UNSIGNED, Spec, Types, check_contiguous, operator, output

CPU_BLOCK = 4096


@kiln.jit
def add_kernel(x, y, out, n, PLAN: kl.constexpr):
    """out = x + y"""
    offsets = PLAN.columns()
    mask = offsets < n
    left, right = kl.load(x + offsets, mask=mask), kl.load(y + offsets, mask=mask)
    # Truth values: "or", which is what numpy and torch call their sum; adding single bits would give 0 for two ones.
    total = left | right if x.dtype.element_ty == kl.int1 else left + right
    kl.store(out + offsets, total, mask=mask)


@operator(
    outputs=lambda x, y, **_: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…)", "y": "(…)", "out": "(…)"},
    types=(
        Types(x=(*FLOATS, "float64", *SIGNED, *UNSIGNED, "bool"), y="x", out="x", inside="the type of x", result="x"),
    ),
    repeatable=True,
)
def add(x: Any, y: Any, *, out: Any = None, plan: FlatPlan | None = None) -> Any:
    """``x + y`` for contiguous arrays of the same shape and dtype.

    The sum is rounded once, to the inputs' type. Integers wrap around; the sum of truth values is their "or". ``plan``
    says how much a program takes (chosen from the size when None).
    """
    if tuple(x.shape) != tuple(y.shape):
        raise ArgumentError(
            "y", f"expected shape {tuple(x.shape)} (because add does not broadcast), got {tuple(y.shape)}"
        )
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "y": y}, ("x", "y"))
    check_contiguous(x=x, y=y, out=out)
    n = 1
    for side in x.shape:
        n *= side
    machine = machine_of(x)
    plan = plan or flat.plan(n, x.itemsize, machine, cpu_block=CPU_BLOCK)
    add_kernel[(kiln.cdiv(n, plan.block),)](x, y, out, n, PLAN=plan.form(n), **plan.options(machine))
    return out

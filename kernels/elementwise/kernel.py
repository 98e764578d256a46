"""Vector add: the smallest kernel, and the one that measures what the memory gives."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels import flat
from kiln.kernels.flat import FlatPlan, needs_wide_index
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import Spec, operator, output

CPU_BLOCK = 4096


@kiln.jit
def add_kernel(x, y, out, n, BLOCK: kl.constexpr, WIDE: kl.constexpr = False):
    program = kl.program_id(0).to(kl.int64) if WIDE else kl.program_id(0)
    offsets = program * BLOCK + kl.arange(0, BLOCK)
    mask = offsets < n
    total = kl.load(x + offsets, mask=mask) + kl.load(y + offsets, mask=mask)
    kl.store(out + offsets, total, mask=mask)


@operator(outputs=lambda x, y, **_: (Spec(x.shape, x.dtype),))
def add(x: Any, y: Any, *, out: Any = None, plan: FlatPlan | None = None) -> Any:
    """``x + y`` for arrays of one shape and dtype whose elements lie side by side.

    ``plan`` says how much a program takes (chosen from the size when None).
    """
    if tuple(x.shape) != tuple(y.shape) or x.dtype != y.dtype:
        raise ValueError(
            f"y: expected shape {tuple(x.shape)} and dtype {x.dtype} (because add does not broadcast), "
            f"got {tuple(y.shape)} and {y.dtype}"
        )
    out = output(out, Spec(x.shape, x.dtype), x)
    n = 1
    for side in x.shape:
        n *= side
    machine = machine_of(x)
    plan = plan or flat.plan(n, x.itemsize, machine, cpu_block=CPU_BLOCK)
    add_kernel[(kiln.cdiv(n, plan.block),)](
        x, y, out, n, BLOCK=plan.block, WIDE=needs_wide_index(n), **plan.options(machine)
    )
    return out

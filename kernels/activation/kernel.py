"""SwiGLU and bias + GELU: float32 inside, one rounding, each element read and written once.

Rows are cut into blocks, one program each, numbered along the rows. Where the rows of all arrays lie side by side,
SwiGLU sees one long row, so that no block is cut short at a row's end.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels import flat
from kiln.kernels.flat import FlatPlan, is_contiguous, needs_wide_index
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import Spec, operator, output, rows_of, strides


@kiln.jit
def _silu_times(gate, up):
    gate = gate.to(kl.float32)
    return gate * kl.sigmoid(gate) * up.to(kl.float32)


@kiln.jit
def _place(blocks, BLOCK: kl.constexpr, FLAT: kl.constexpr):
    """The program's row and its first column."""
    program = kl.program_id(0)
    if FLAT:
        return 0, program * BLOCK
    return program // blocks, program % blocks * BLOCK


@kiln.jit
def swiglu_kernel(gate, up, y, gate_stride, gate_step, up_stride, up_step, y_stride, y_step, up_offset, n, blocks,
                  INTERLEAVED: kl.constexpr, FLAT: kl.constexpr, BLOCK: kl.constexpr):  # fmt: skip
    row, start = _place(blocks, BLOCK, FLAT)
    columns = start + kl.arange(0, BLOCK)
    mask = columns < n
    if INTERLEAVED:
        both = 2 * start + kl.arange(0, 2 * BLOCK)
        pairs = kl.load(gate + row * gate_stride + both * gate_step, mask=both < 2 * n, other=0.0)
        left, right = kl.split(kl.reshape(pairs, (BLOCK, 2)))
    else:
        left = kl.load(gate + row * gate_stride + columns * gate_step, mask=mask, other=0.0)
        right = kl.load(up + up_offset + row * up_stride + columns * up_step, mask=mask, other=0.0)
    result = _silu_times(left, right).to(y.dtype.element_ty)
    kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


@kiln.jit
def bias_gelu_kernel(x, bias, y, x_stride, x_step, bias_step, y_stride, y_step, n, blocks,
                     TANH: kl.constexpr, FLAT: kl.constexpr, BLOCK: kl.constexpr):  # fmt: skip
    row, start = _place(blocks, BLOCK, FLAT)
    columns = start + kl.arange(0, BLOCK)
    mask = columns < n
    value = kl.load(x + row * x_stride + columns * x_step, mask=mask, other=0.0).to(kl.float32)
    if bias is not None:
        value += kl.load(bias + columns * bias_step, mask=mask, other=0.0).to(kl.float32)
    if TANH:
        # 0.5·(1 + tanh(u)) is sigmoid(2u).
        inner = 1.5957691216057308 * (value + 0.044715 * value * value * value)
        result = value * kl.sigmoid(inner)
    else:
        result = 0.5 * value * (1.0 + kl.erf(value * 0.7071067811865476))
    kl.store(y + row * y_stride + columns * y_step, result.to(y.dtype.element_ty), mask=mask)


def _swiglu_specs(gate: Any, up: Any = None, *, layout: str = "halves", **_: Any) -> tuple[Spec, ...]:
    columns = gate.shape[-1] if up is not None else gate.shape[-1] // 2
    return (Spec((*gate.shape[:-1], columns), gate.dtype),)


@operator(outputs=_swiglu_specs)
def swiglu(gate: Any, up: Any = None, *, layout: str = "halves", out: Any = None, plan: FlatPlan | None = None) -> Any:
    """``silu(gate) · up``.

    With ``up`` None, ``gate`` holds both: ``layout="halves"``: gates in the first half of the columns, ups in the
    second; ``layout="interleaved"``: gate, up, gate, up, … (what one GEMM with interleaved weights gives). ``plan``
    says how much of a row a program takes (chosen from the shape when None).
    """
    if layout not in ("halves", "interleaved"):
        raise ValueError(f'layout: expected "halves" or "interleaved", got {layout!r}')
    if up is not None and tuple(up.shape) != tuple(gate.shape):
        raise ValueError(f"up: expected shape {tuple(gate.shape)} (the shape of gate), got {tuple(up.shape)}")
    if up is None and gate.shape[-1] % 2:
        raise ValueError(f"gate: expected an even number of columns (because it holds pairs), got {gate.shape[-1]}")
    spec = _swiglu_specs(gate, up)[0]
    out = output(out, spec, gate)
    n = spec.shape[-1]
    rows, gate_stride, gate_step = rows_of(gate, "gate")
    _, up_stride, up_step = (rows, gate_stride, gate_step) if up is None else rows_of(up, "up")
    interleaved = up is None and layout == "interleaved"
    total = rows * n
    whole = all(is_contiguous(array) for array in (gate, gate if up is None else up, out))
    one_row = whole and (up is not None or interleaved) and not needs_wide_index(total * (1 + interleaved))
    if one_row:
        rows, n = 1, total
    machine = machine_of(gate)
    plan = plan or flat.plan(n, gate.itemsize, machine, rows=rows, accesses=2)
    blocks = kiln.cdiv(n, plan.block)
    swiglu_kernel[(blocks * rows,)](
        gate, gate if up is None else up, out, gate_stride, gate_step, up_stride, up_step, *rows_of(out, "out")[1:],
        n * gate_step if up is None and not interleaved else 0, n, blocks, INTERLEAVED=interleaved,
        FLAT=rows == 1, BLOCK=plan.block, **plan.options(machine),
    )  # fmt: skip
    return out


@operator(outputs=lambda x, bias=None, **_: (Spec(x.shape, x.dtype),))
def bias_gelu(x: Any, bias: Any = None, *, approximate: str = "none", out: Any = None,
              plan: FlatPlan | None = None) -> Any:  # fmt: skip
    """``gelu(x + bias)``: exact by erf, or with ``approximate="tanh"`` the tanh form (torch's names)."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate: expected "none" or "tanh", got {approximate!r}')
    n = x.shape[-1]
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"bias: expected shape ({n},) (because rows have {n} elements), got {tuple(bias.shape)}")
    out = output(out, Spec(x.shape, x.dtype), x)
    rows, x_stride, x_step = rows_of(x)
    if bias is None and is_contiguous(x) and is_contiguous(out) and not needs_wide_index(rows * n):
        rows, n = 1, rows * n
    machine = machine_of(x)
    plan = plan or flat.plan(n, x.itemsize, machine, rows=rows, accesses=2)
    blocks = kiln.cdiv(n, plan.block)
    bias_gelu_kernel[(blocks * rows,)](
        x, bias, out, x_stride, x_step, strides(bias)[0] if bias is not None else 1, *rows_of(out, "out")[1:], n,
        blocks, TANH=approximate == "tanh", FLAT=rows == 1, BLOCK=plan.block, **plan.options(machine),
    )  # fmt: skip
    return out

"""SwiGLU and bias + GELU: float32 inside, one rounding, each element read and written once.

Results of 16 bits are computed to well below their rounding, in half the operations that float32 takes.

Rows are cut into blocks, one program each, numbered along the rows. Where the rows of all arrays lie side by side,
SwiGLU sees one long row, so that no block is cut short at a row's end.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import flat
from kiln.kernels.fast import gelu_narrow, sigmoid_narrow
from kiln.kernels.flat import FlatPlan, block_place, needs_wide_index
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import (
    FLOATS,
    Spec,
    Types,
    address,
    is_contiguous,
    operator,
    output,
    rows_of,
    strides,
)
from kiln.kernels.rows import read


@kiln.jit
def _sigmoid(x, NARROW: kl.constexpr):
    return sigmoid_narrow(x) if NARROW else kl.sigmoid(x)


@kiln.jit
def swiglu_kernel(gate, up, y, gate_stride, gate_step, up_stride, up_step, y_stride, y_step, up_offset, n,
                  INTERLEAVED: kl.constexpr, BLOCK: kl.constexpr, NUMBERING: kl.constexpr,
                  FULL: kl.constexpr, EVICT: kl.constexpr = ""):  # fmt: skip
    row, start, mask = block_place(n, BLOCK, NUMBERING, FULL)
    columns = start + kl.arange(0, BLOCK)
    if INTERLEAVED:
        both = 2 * start + kl.arange(0, 2 * BLOCK)
        pairs = read(gate + row * gate_stride + both * gate_step, None if FULL else both < 2 * n, EVICT=EVICT)
        left, right = kl.split(kl.reshape(pairs, (BLOCK, 2)))
    else:
        left = read(gate + row * gate_stride + columns * gate_step, mask, EVICT=EVICT)
        right = read(up + up_offset + row * up_stride + columns * up_step, mask, EVICT=EVICT)
    gate_value = left.to(kl.float32)
    result = gate_value * _sigmoid(gate_value, y.dtype.element_ty.primitive_bitwidth == 16) * right.to(kl.float32)
    kl.store(y + row * y_stride + columns * y_step, result.to(y.dtype.element_ty), mask=mask)


@kiln.jit
def bias_gelu_kernel(x, bias, y, x_stride, x_step, bias_step, y_stride, y_step, n, TANH: kl.constexpr,
                     BLOCK: kl.constexpr, NUMBERING: kl.constexpr, FULL: kl.constexpr,
                     EVICT: kl.constexpr = ""):  # fmt: skip
    row, start, mask = block_place(n, BLOCK, NUMBERING, FULL)
    columns = start + kl.arange(0, BLOCK)
    value = read(x + row * x_stride + columns * x_step, mask, EVICT=EVICT).to(kl.float32)
    if bias is not None:
        value += read(bias + columns * bias_step, mask).to(kl.float32)
    NARROW: kl.constexpr = y.dtype.element_ty.primitive_bitwidth == 16
    if TANH:
        # 0.5·(1 + tanh(u)) is sigmoid(2u).
        inner = 1.5957691216057308 * (value + 0.044715 * value * value * value)
        result = value * _sigmoid(inner, NARROW)
    elif NARROW:
        result = gelu_narrow(value)
    else:
        result = 0.5 * value * (1.0 + kl.erf(value * 0.7071067811865476))
    kl.store(y + row * y_stride + columns * y_step, result.to(y.dtype.element_ty), mask=mask)


def _swiglu_specs(gate: Any, up: Any = None, *, layout: str = "halves", **_: Any) -> tuple[Spec, ...]:
    columns = gate.shape[-1] if up is not None else gate.shape[-1] // 2
    return (Spec((*gate.shape[:-1], columns), gate.dtype),)


@operator(
    outputs=_swiglu_specs,
    arrays={"gate": "(…, n)", "up": "(…, n)", "out": "(…, n)"},
    types=(Types(gate=FLOATS, up=FLOATS, out=FLOATS, inside="float32", result="gate"),),
)
def swiglu(gate: Any, up: Any = None, *, layout: str = "halves", out: Any = None, plan: FlatPlan | None = None) -> Any:
    """``silu(gate) · up``.

    With ``up`` None, ``gate`` holds both: ``layout="halves"``: gates in the first half of the columns, ups in the
    second; ``layout="interleaved"``: gate, up, gate, up, … (what one GEMM with interleaved weights gives). ``plan``
    says how much of a row a program takes (chosen from the shape when None).
    """
    if layout not in ("halves", "interleaved"):
        raise ArgumentError("layout", f'expected "halves" or "interleaved", got {layout!r}')
    if up is not None and tuple(up.shape) != tuple(gate.shape):
        raise ArgumentError("up", f"expected shape {tuple(gate.shape)} (the shape of gate), got {tuple(up.shape)}")
    if up is None and gate.shape[-1] % 2:
        raise ArgumentError(
            "gate", f"expected an even number of columns (because it holds pairs), got {gate.shape[-1]}"
        )
    spec = _swiglu_specs(gate, up)[0]
    n = spec.shape[-1]
    halves = up is None and layout == "halves"
    if halves and out is not None and strides(out) == strides(gate) and address(out) in _halves(gate, n):
        out = output(out, spec, gate)
    else:
        out = output(out, spec, gate, "out", {"gate": gate, "up": up}, ("gate", "up"))
    rows, gate_stride, gate_step = rows_of(gate, "gate")
    _, up_stride, up_step = (rows, gate_stride, gate_step) if up is None else rows_of(up, "up")
    interleaved = up is None and layout == "interleaved"
    total = rows * n
    whole = all(is_contiguous(array) for array in (gate, gate if up is None else up, out))
    one_row = whole and (up is not None or interleaved) and not needs_wide_index(total * (1 + interleaved))
    if one_row:
        # A dimension of one element may have any stride.
        rows, n, gate_step, up_step = 1, total, 1, 1
    _, y_stride, y_step = (1, 0, 1) if one_row else rows_of(out, "out")
    machine = machine_of(gate)
    plan = plan or flat.plan(n, gate.itemsize, machine, rows=rows, read_bytes=2 * total * gate.itemsize)
    swiglu_kernel[plan.grid(rows, n)](
        gate, gate if up is None else up, out, gate_stride, gate_step, up_stride, up_step, y_stride, y_step,
        n * gate_step if halves else 0, n, INTERLEAVED=interleaved,
        **plan.meta(rows, n, machine),
    )  # fmt: skip
    return out


def _halves(gate: Any, n: int) -> tuple[int, int]:
    """Where gates and ups of one array begin: results may go to the places of either."""
    return address(gate), address(gate) + n * strides(gate)[-1] * gate.itemsize


@operator(
    outputs=lambda x, *_, **__: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "bias": "(n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, bias=FLOATS, out=FLOATS, inside="float32", result="x"),),
)
def bias_gelu(x: Any, bias: Any = None, *, approximate: str = "none", out: Any = None,
              plan: FlatPlan | None = None) -> Any:  # fmt: skip
    """``gelu(x + bias)``: exact by erf, or with ``approximate="tanh"`` the tanh form (torch's names)."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError("approximate", f'expected "none" or "tanh", got {approximate!r}')
    n = x.shape[-1]
    if bias is not None and tuple(bias.shape) != (n,):
        raise ArgumentError("bias", f"expected shape ({n},) (because rows have {n} elements), got {tuple(bias.shape)}")
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "bias": bias}, ("x",))
    rows, x_stride, x_step = rows_of(x)
    _, y_stride, y_step = rows_of(out, "out")
    if bias is None and is_contiguous(x) and is_contiguous(out) and not needs_wide_index(rows * n):
        # A dimension of one element may have any stride.
        rows, n, x_step, y_step = 1, rows * n, 1, 1
    machine = machine_of(x)
    plan = plan or flat.plan(n, x.itemsize, machine, rows=rows, read_bytes=rows * n * x.itemsize)
    bias_gelu_kernel[plan.grid(rows, n)](
        x, bias, out, x_stride, x_step, strides(bias)[0] if bias is not None else 1, y_stride, y_step, n,
        TANH=approximate == "tanh", **plan.meta(rows, n, machine),
    )  # fmt: skip
    return out

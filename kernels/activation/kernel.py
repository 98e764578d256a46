"""SwiGLU and bias + GELU: float32 arithmetic, one rounding, each element read and written once.

For 16-bit results, GELU and the sigmoid are computed to well below the rounding of the result, in half the operations
that float32 takes.

Rows are cut into blocks, one program each, numbered along the rows. Where all arrays are contiguous, SwiGLU sees one
long row, so that no block is cut short at the end of a row.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import flat
from kiln.kernels.fast import gelu_narrow, sigmoid_narrow
from kiln.kernels.flat import FlatPlan, needs_wide_index
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import (
    FLOATS,
    Spec,
    Types,
    address,
    is_contiguous,
    operator,
    output,
    strides,
)
from kiln.kernels.views import Rows, Vector, flat_view, rows_view, vector_view


@kiln.jit
def _sigmoid(x, NARROW: kl.constexpr):
    return sigmoid_narrow(x) if NARROW else kl.sigmoid(x)


@kiln.jit
def swiglu_kernel(gate: Rows, up: Rows, up_offset, y: Rows, INTERLEAVED: kl.constexpr, PLAN: kl.constexpr):
    """y = gate · sigmoid(gate) · up; up begins up_offset elements after its pointer; INTERLEAVED: gate holds pairs of
    both"""
    tile = PLAN.tile(y)
    if INTERLEAVED:
        left, right = kl.split(kl.reshape(gate.load(PLAN.pairs(y)), (PLAN.BLOCK, 2)))
    else:
        left, right = gate.load(tile), up.after(up_offset).load(tile)
    value = left.to(kl.float32)
    y.store(tile, value * _sigmoid(value, y.dtype.primitive_bitwidth == 16) * right.to(kl.float32))


@kiln.jit
def bias_gelu_kernel(x: Rows, bias: Vector | None, y: Rows, TANH: kl.constexpr, PLAN: kl.constexpr):
    """y = v · Φ(v) with v = x + bias"""
    tile = PLAN.tile(y)
    value = x.load(tile).to(kl.float32)
    if bias is not None:
        value += bias.load(tile).to(kl.float32)
    y.store(tile, _gelu(value, TANH, y.dtype.primitive_bitwidth == 16))


@kiln.jit
def _gelu(value, TANH: kl.constexpr, NARROW: kl.constexpr):
    if TANH:
        # 0.5·(1 + tanh(u)) is sigmoid(2u).
        inner = 1.5957691216057308 * (value + 0.044715 * value * value * value)
        return value * _sigmoid(inner, NARROW)
    if NARROW:
        return gelu_narrow(value)
    return 0.5 * value * (1.0 + kl.erf(value * 0.7071067811865476))


def _swiglu_specs(gate: Any, up: Any = None, *, layout: str = "halves", **_: Any) -> tuple[Spec, ...]:
    columns = gate.shape[-1] if up is not None else gate.shape[-1] // 2
    return (Spec((*gate.shape[:-1], columns), gate.dtype),)


@operator(
    outputs=_swiglu_specs,
    arrays={"gate": "(…, n)", "up": "(…, n)", "out": "(…, n)"},
    types=(Types(gate=FLOATS, up=FLOATS, out=FLOATS, inside="float32", result="gate"),),
    repeatable=True,
)
def swiglu(gate: Any, up: Any = None, *, layout: str = "halves", out: Any = None, plan: FlatPlan | None = None) -> Any:
    """``silu(gate) · up``, computed in float32 and rounded once to the type of ``out``.

    With ``up`` None, ``gate`` holds both. ``layout="halves"``: gates in the first half of the columns, ups in the
    second; ``layout="interleaved"``: gate, up, gate, up, … (the result of one GEMM with interleaved weights). ``plan``
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
    of_gate, of_up = rows_view(gate, "gate"), rows_view(gate if up is None else up, "up")
    interleaved = up is None and layout == "interleaved"
    rows, total = of_gate.rows, of_gate.rows * n
    whole = all(is_contiguous(array) for array in (gate, gate if up is None else up, out))
    if whole and (up is not None or interleaved) and not needs_wide_index(total * (1 + interleaved)):
        rows, n = 1, total
        of_gate, of_up, of_y = flat_view(gate, n), flat_view(gate if up is None else up, n), flat_view(out, n)
    else:
        of_y = rows_view(out, "out")
    machine = machine_of(gate)
    read = 2 * total * gate.itemsize
    plan = plan or flat.plan(n, gate.itemsize, machine, rows=rows, read_bytes=read, whole_rows=not interleaved)
    offset = n * of_gate.step if halves else 0
    swiglu_kernel[plan.grid(rows, n)](
        of_gate, of_up, offset, of_y, INTERLEAVED=interleaved, **plan.meta(rows, n, machine)
    )
    return out


def _halves(gate: Any, n: int) -> tuple[int, int]:
    """Where the gates and the ups of one array begin: results may overwrite either."""
    return address(gate), address(gate) + n * strides(gate)[-1] * gate.itemsize


@operator(
    outputs=lambda x, *_, **__: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "bias": "(n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, bias=FLOATS, out=FLOATS, inside="float32", result="x"),),
    repeatable=True,
)
def bias_gelu(
    x: Any, bias: Any = None, *, approximate: str = "none", out: Any = None, plan: FlatPlan | None = None
) -> Any:
    """``gelu(x + bias)``, computed in float32 and rounded once to the type of ``out``.

    ``approximate`` is "none" for the exact form by erf, or "tanh" for the tanh form (torch's names). ``plan`` says how
    much of a row a program takes (chosen from the shape when None)."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError("approximate", f'expected "none" or "tanh", got {approximate!r}')
    n = x.shape[-1]
    if bias is not None and tuple(bias.shape) != (n,):
        raise ArgumentError("bias", f"expected shape ({n},) (because rows have {n} elements), got {tuple(bias.shape)}")
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "bias": bias}, ("x",))
    of_x, of_y = rows_view(x), rows_view(out, "out")
    rows = of_x.rows
    if bias is None and is_contiguous(x) and is_contiguous(out) and not needs_wide_index(rows * n):
        rows, n = 1, rows * n
        of_x, of_y = flat_view(x, n), flat_view(out, n)
    machine = machine_of(x)
    plan = plan or flat.plan(n, x.itemsize, machine, rows=rows, read_bytes=rows * n * x.itemsize, whole_rows=True)
    bias_gelu_kernel[plan.grid(rows, n)](
        of_x, vector_view(bias), of_y, TANH=approximate == "tanh", **plan.meta(rows, n, machine)
    )
    return out

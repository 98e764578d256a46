"""Moves and conversions between types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .arithmetic import FLOATS, bits_of
from .operation import Run, operation
from .ptx import Instruction, Unsupported

FP8 = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}
TO_INTEGER = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


@operation("mov")
def _move(ins: Instruction) -> Run:
    to, source = ins.operands
    width = bits_of(ins.type)
    if isinstance(to, tuple):
        part = f"b{width // len(to)}"

        def split(machine: Any, lanes: Any) -> None:
            value = machine.read(f"b{width}", source, lanes).copy()
            for i, row in enumerate(to):
                machine.write(part, row, lanes, value >> value.dtype.type(width // len(to) * i))

        return split
    if isinstance(source, tuple):
        each = width // len(source)

        def join(machine: Any, lanes: Any) -> None:
            value: Any = 0
            for i, row in enumerate(source):
                piece = machine.read(f"b{each}", row, lanes).astype(np.uint64)
                value = value | piece << np.uint64(each * i)
            machine.write(f"b{width}", to, lanes, value)

        return join
    if ins.type == "pred":
        # An immediate predicate is any integer that is not 0.
        return lambda machine, lanes: machine.write("pred", to, lanes, machine.read("u8", source, lanes) != 0)
    kind = f"b{width}"
    return lambda machine, lanes: machine.write(kind, to, lanes, machine.read(kind, source, lanes))


@operation("cvta", "to global param shared")
def _generic_address(ins: Instruction) -> Run:
    to, source = ins.operands
    return lambda machine, lanes: machine.write("b64", to, lanes, machine.read("b64", source, lanes))


def _to_fp8(values: list[np.ndarray], kind: str) -> Any:
    """Low half first. `satfinite`: values out of range become the largest finite one."""
    narrow = FP8[kind]
    largest = float(ml_dtypes.finfo(narrow).max)
    word: Any = 0
    for i, x in enumerate(values):
        x = np.where(np.isnan(x), x, np.clip(x.astype(np.float32), -largest, largest))
        word = word | x.astype(np.float32).astype(narrow).view(np.uint8).astype(np.uint16) << np.uint16(8 * i)
    return word


def _pair(ins: Instruction, to_kind: str, kind: str) -> Run:
    """Conversions of two values in one register; the first operand is the high half."""
    to, *sources = ins.operands
    relu = "relu" in ins.modifiers
    if kind in FP8:
        if to_kind != "f16x2":
            raise Unsupported(f"{ins}: {kind} to {to_kind}")

        def widen(machine: Any, lanes: Any) -> None:
            word = machine.read("u16", sources[0], lanes)
            halves = [((word >> np.uint16(8 * i)) & np.uint16(255)).astype(np.uint8).view(FP8[kind]) for i in range(2)]
            machine.write("f16x2", to, lanes, np.stack([half.astype(np.float16) for half in halves], axis=-1))

        return widen

    def run(machine: Any, lanes: Any) -> None:
        if kind == "f32":
            values = [machine.read("f32", row, lanes) for row in reversed(sources)]
        else:
            both = machine.read(kind, sources[0], lanes)
            values = [both[:, 0], both[:, 1]]
        if relu:
            values = [np.maximum(x, 0) for x in values]
        if to_kind in FP8:
            machine.write("u16", to, lanes, _to_fp8(values, to_kind))
        else:
            machine.write(to_kind, to, lanes, np.stack(values, axis=-1))

    return run


@operation("cvt", "rn rna rz rni rzi rmi rpi ftz sat satfinite relu")
def _convert(ins: Instruction) -> Run:
    to_kind, kind = ins.types[-2:]
    if to_kind.endswith("x2"):
        return _pair(ins, to_kind, kind)
    if "rz" in ins.modifiers:
        raise Unsupported(f"{ins}: rounding towards zero")
    to, source = ins.operands
    if to_kind == "tf32":

        def to_tf32(machine: Any, lanes: Any) -> None:
            # Rounds half away from zero (rna) or to even (rn), to 10 fraction bits; infinities and NaN stay.
            bits = machine.read("u32", source, lanes)
            half = (
                np.uint32(0x1000)
                if "rna" in ins.modifiers
                else np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
            )
            finite = (bits & np.uint32(0x7F800000)) != 0x7F800000
            machine.write("u32", to, lanes, np.where(finite, (bits + half) & np.uint32(0xFFFFE000), bits))

        return to_tf32
    rounding = next((TO_INTEGER[m] for m in ins.modifiers if m in TO_INTEGER), None)
    width = bits_of(to_kind)
    if to_kind in FLOATS:

        def to_float(machine: Any, lanes: Any) -> None:
            value = machine.read(kind, source, lanes)
            value = rounding(value) if rounding else value
            if kind not in FLOATS and to_kind == "bf16":
                # ml_dtypes converts through float32: round to odd there, so that only the second rounding counts.
                value = _float_to_odd(value)
            if "sat" in ins.modifiers:
                value = np.where(np.isnan(value), 0, np.clip(value, 0, 1))
            if "relu" in ins.modifiers:
                value = np.maximum(value, 0)
            machine.write(to_kind, to, lanes, value)

        return to_float
    info = np.iinfo(f"{'i' if to_kind[0] == 's' else 'u'}{width // 8}")

    def to_integer(machine: Any, lanes: Any) -> None:
        value = machine.read(kind, source, lanes)
        if kind in FLOATS:
            whole = rounding(value.astype(np.float64))
            whole = np.where(np.isnan(whole), 0.0, whole)
            inside = (whole >= float(info.min)) & (whole < float(info.max) + (width < 64))
            result = np.where(inside, whole, 0).astype(info.dtype)
            result = np.where(inside, result, np.where(whole < 0, info.min, info.max).astype(info.dtype))
        elif "sat" in ins.modifiers:
            result = np.array([min(max(int(v), info.min), info.max) for v in value], info.dtype)
        else:
            result = value.astype(info.dtype)
        # The register may be wider than the type: a signed number is extended by its sign.
        machine.write("u64", to, lanes, result)

    return to_integer


def _float_to_odd(value: np.ndarray) -> np.ndarray:
    """Integers in float32; if inexact, the neighbour whose last bit is set."""
    near = value.astype(np.float32)
    exact = [int(n) - int(v) for n, v in zip(near, value, strict=True)]
    even = (near.view(np.uint32) & 1) == 0
    error = np.array([(e > 0) - (e < 0) for e in exact])
    return np.where(
        even & (error != 0), np.nextafter(near, np.where(error > 0, -np.inf, np.inf).astype(np.float32)), near
    )

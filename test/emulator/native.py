"""Runs of instructions that touch only the registers of one warp, executed by Native.cpp: most of what a kernel does.

The Python function of an instruction says what it does, and runs it where lanes have diverged; `encode` says which ones
Native.cpp does too, bit for bit (test_native.py). A function that a test has replaced is not encoded. Without the
library everything runs in Python.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from . import access, arithmetic, conversion, operation  # noqa: F401  (they register what is encoded here)
from .arithmetic import bits_of
from .ptx import Instruction

LIBRARY = (
    pathlib.Path(__file__).resolve().parents[2] / os.environ.get("KILN_BUILD", "build")
    / "test" / "emulator" / "libkiln_emulator_native.so"
)  # fmt: skip
# As in Native.cpp.
OPERATIONS = ("nothing bra argument mov split join cvt halves add sub mul mad fma wide high min max neg abs and or "
              "xor not shl shr setp selp bfe prmt shf").split()  # fmt: skip
KINDS = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "pred"]
COMPARISONS = {"eq": 0, "ne": 1, "lt": 2, "lo": 2, "le": 3, "ls": 3, "gt": 4, "hi": 4, "ge": 5, "hs": 5}
FIELDS = ["operation", "kind", "to", "a", "b", "c", "predicate", "negated", "more", "other"]
NONE = {"kind": 0, "to": -1, "a": -1, "b": -1, "c": -1, "more": 0, "other": 0}
ROUNDED_OTHERWISE = {"ftz", "sat", "relu", "approx", "full"}


def kind_of(name: str) -> int:
    """The number of a type; that of bits is unsigned."""
    return KINDS.index("u" + name[1:] if name[0] == "b" and name[1:].isdigit() else name)


def _is_integer(name: str) -> bool:
    return name[0] in "usb" and name[1:].isdigit()


Fields = dict[str, int]
_encoders: dict[str, tuple[Any, Callable[[Instruction], Fields | None]]] = {}


def encoder(names: str) -> Callable[..., Any]:
    """Registers what returns the fields of an instruction, or None if only Python runs it."""

    def register(function: Callable[[Instruction], Fields | None]) -> Callable[[Instruction], Fields | None]:
        for name in names.split():
            _encoders[name] = operation._table.get(name), function
        return function

    return register


def encode(ins: Instruction) -> list[int] | None:
    if ins.reads or ins.writes or ins.name not in _encoders:  # of products: they are checked
        return None
    known, function = _encoders[ins.name]
    if operation._table.get(ins.name) is not known:
        return None
    fields = function(ins)
    if fields is None:
        return None
    guard = {"predicate": -1 if ins.predicate is None else ins.predicate, "negated": int(ins.negated)}
    number = fields["operation"] if "operation" in fields else OPERATIONS.index(ins.name)
    fields = {**NONE, **guard, **fields, "operation": number}
    return [fields[name] for name in FIELDS]


@encoder("bra")
def _branch(ins: Instruction) -> Fields | None:
    return {"more": ins.operands[0]}


@encoder("ld")
def _argument(ins: Instruction) -> Fields | None:
    to, address, *_ = ins.operands
    if not address.parameter or not isinstance(to, int) or not _is_integer(ins.type):
        return None
    return {"operation": OPERATIONS.index("argument"), "kind": kind_of(ins.type), "to": to, "a": address.offset}


@encoder("mov")
def _move(ins: Instruction) -> Fields | None:
    to, source = ins.operands
    if ins.type == "pred":
        return {"kind": kind_of("pred"), "to": to, "a": source}
    width = bits_of(ins.type)
    if width > 64:
        return None
    if isinstance(to, int) and isinstance(source, int):
        return {"kind": kind_of(f"u{width}"), "to": to, "a": source}
    half = {"kind": kind_of(f"u{width // 2}"), "more": width // 2}
    if isinstance(to, tuple) and len(to) == 2:
        low, high = (-1 if row is None else row for row in to)
        return {**half, "operation": OPERATIONS.index("split"), "to": low, "a": source, "b": high}
    if isinstance(source, tuple) and len(source) == 2:
        a, b = source
        return {**half, "operation": OPERATIONS.index("join"), "to": to, "a": a, "b": b,
                "other": kind_of(f"u{width}")}  # fmt: skip
    return None


@encoder("cvt")
def _convert(ins: Instruction) -> Fields | None:
    to_kind, kind = ins.types[-2:]
    if set(ins.modifiers) == {"rn", "f16x2", "f32"}:
        to, high, low = ins.operands
        return {"operation": OPERATIONS.index("halves"), "to": to, "a": low, "b": high}
    if not (_is_integer(to_kind) and _is_integer(kind)) or set(ins.modifiers) != {to_kind, kind}:
        return None
    to, source = ins.operands
    return {"kind": kind_of(kind), "more": kind_of(to_kind), "to": to, "a": source}


@encoder("add sub mul mad fma min max neg abs and or xor not")
def _elementwise(ins: Instruction) -> Fields | None:
    kind = ins.type
    if ROUNDED_OTHERWISE.intersection(ins.modifiers):
        return None
    to, *rows = ins.operands
    if kind in ("f32", "f64"):
        # A maximum of three numbers is Python's, and one that keeps NaNs; so is a sum of float64 rounded once.
        known = {"fma": kind == "f32", "mad": False}.get(ins.name, "NaN" not in ins.modifiers and len(rows) < 3)
    else:
        known = _is_integer(kind) or (kind == "pred" and ins.name in ("and", "or", "xor", "not"))
    if not known:
        return None
    # A predicate is a byte.
    number = kind_of("u8" if kind == "pred" and ins.name != "not" else kind)
    name = "wide" if "wide" in ins.modifiers else "high" if "hi" in ins.modifiers else ins.name
    wide = kind_of(f"{kind[0]}{2 * bits_of(kind)}") if name == "wide" else 0
    return {"operation": OPERATIONS.index(name), "kind": number, "more": wide, "to": to,
            **dict(zip("abc", rows, strict=False))}  # fmt: skip


@encoder("shl shr")
def _shift(ins: Instruction) -> Fields | None:
    to, a, b = ins.operands
    signed = ins.name == "shr" and ins.type[0] == "s"
    return {"kind": kind_of(f"{'s' if signed else 'u'}{bits_of(ins.type)}"), "to": to, "a": a, "b": b}


@encoder("setp")
def _compare(ins: Instruction) -> Fields | None:
    word, kind = ins.modifiers[0], ins.type
    is_float = kind in ("f32", "f64")
    unordered = is_float and word.endswith("u")
    comparison = COMPARISONS.get(word[:-1] if unordered else word)
    if comparison is None or not (is_float or _is_integer(kind)):
        return None
    to, a, b, *last = ins.operands
    joint = ["", "and", "or", "xor"].index(ins.one_of("and", "or", "xor") if last else "")
    more = comparison | joint << 3 | unordered << 5 | ("not_last" in ins.modifiers) << 6
    return {"kind": kind_of(kind), "to": to[0] if isinstance(to, tuple) else to, "a": a, "b": b,
            "c": last[0] if last else -1, "more": more}  # fmt: skip


@encoder("selp")
def _select(ins: Instruction) -> Fields | None:
    to, a, b, choice = ins.operands
    return {"kind": kind_of("u8" if ins.type == "pred" else f"u{bits_of(ins.type)}"), "to": to, "a": a, "b": b,
            "c": choice}  # fmt: skip


@encoder("bfe prmt shf")
def _three(ins: Instruction) -> Fields | None:
    to, a, b, c = ins.operands
    more = ("r" in ins.modifiers) | ("wrap" in ins.modifiers) << 1
    return {"kind": kind_of(ins.type), "to": to, "a": a, "b": b, "c": c, "more": more}


class Context(ctypes.Structure):
    _fields_ = [("steps", ctypes.c_void_p), ("table", ctypes.c_void_p), ("threads", ctypes.c_int64),
                ("arguments", ctypes.c_void_p)]  # fmt: skip


def _load() -> Any:
    if not LIBRARY.exists():
        return None
    function = ctypes.CDLL(str(LIBRARY)).runNative
    function.restype = ctypes.c_int64
    function.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64]
    return function


run = _load()


def steps(instructions: list[Instruction]) -> np.ndarray:
    """One row of fields per instruction, zeros for those that Python runs, and zeros behind them."""
    code = np.zeros((len(instructions) + 1, len(FIELDS)), np.int32)
    for i, ins in enumerate(instructions):
        fields = encode(ins)
        if fields is not None:
            code[i] = fields
    return code

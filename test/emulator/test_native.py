"""What Native.cpp does is what the functions of the instructions do: bit for bit, in every register."""

from __future__ import annotations

import numpy as np
import pytest

from emulator import native, operation
from emulator.machine import Machine, prepared
from emulator.test_machine import MODULE

NUMBERS = {16: "%h", 32: "%r", 64: "%d"}
INTEGERS = [f"{sign}{width}" for width in NUMBERS for sign in "us"]
# Two operands of 64 bits, whose low bits are the narrower ones, a third, and predicates that hold in some lanes.
LOAD = """
ld.global.b64 %d4, [%d1]; ld.global.b64 %d5, [%d1+256]; ld.global.b64 %d6, [%d1+512];
cvt.u32.u64 %r4, %d4; cvt.u32.u64 %r5, %d5; cvt.u32.u64 %r6, %d6;
cvt.u16.u64 %h4, %d4; cvt.u16.u64 %h5, %d5; cvt.u16.u64 %h6, %d6;
setp.lt.s32 %p1, %r4, %r5; setp.lt.s32 %p2, %r5, %r6; setp.eq.b32 %p3, %r3, %r3;
"""
EDGES = [0, 1, 2, 7, 31, 32, 63, 64, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
         2**63 - 1, 2**63, 2**64 - 1]  # fmt: skip
FLOAT_EDGES = [0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, -3e38, float("inf"), -float("inf"), float("nan"), 0.1, 1 + 2.0**-23]
# From a half on, in the last places of a float32: a quarter, half, three quarters of the way to the next one.
NEAR_HALVES = np.array([0, 1, 0x800, 0xFFF, 0x1000, 0x1001, 0x1800, 0x1FFF], np.uint32)


def forms() -> list[str]:
    """One instruction of every form that is encoded, on every type."""
    found = ["mov.pred %p5, %p1;", "not.pred %p5, %p1;", "selp.b32 %r9, %r4, %r5, %p1;", "selp.b64 %d9, %d4, %d5, %p1;",
             "selp.b16 %h8, %h4, %h5, %p1;", "prmt.b32 %r9, %r4, %r5, %r6;", "ld.param.b64 %d9, [out];",
             "mov.b64 {%r9, %r10}, %d4;", "mov.b64 {_, %r10}, %d4;", "mov.b32 {%h7, %h8}, %r4;",
             "mov.b64 %d9, {%r4, %r5};", "mov.b32 %r9, {%h4, %h5};", "ld.param.b32 %r9, [in];",
             "ld.param.s32 %r9, [in+4];"]  # fmt: skip
    found += [f"{name}.pred %p5, %p1, %p2;" for name in ("and", "or", "xor")]
    found += [f"setp.lt.{joint}.s32 %p5, %r4, %r6, {no}%p2;" for joint in ("and", "or", "xor") for no in ("", "!")]
    found += [f"shf.{way}.{mode}.b32 %r9, %r4, %r5, %r6;" for way in "lr" for mode in ("wrap", "clamp")]
    for kind in INTEGERS:
        width = int(kind[1:])
        x, y, z, to = (f"{NUMBERS[width]}{i}" for i in (4, 5, 6, 8))
        found += [f"{name}.{kind} {to}, {x}, {y};" for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max")]
        found += [f"mad.{half}.{kind} {to}, {x}, {y}, {z};" for half in ("lo", "hi")]
        found += [f"shr.{kind} {to}, {x}, %r5;", f"mov.{kind} {to}, {x};"]
        found += [f"setp.{word}.{kind} %p5, {x}, {y};" for word in ("eq", "ne", "lt", "le", "gt", "ge")]
        if kind[0] == "u":
            found += [f"setp.{word}.{kind} %p5, {x}, {y};" for word in ("lo", "ls", "hi", "hs")]
            found += [f"{name}.b{width} {to}, {x}, {y};" for name in ("and", "or", "xor")]
            found += [f"not.b{width} {to}, {x};", f"shl.b{width} {to}, {x}, %r5;"]
        else:
            found += [f"neg.{kind} {to}, {x};", f"abs.{kind} {to}, {x};"]
        if width < 64:
            wide = NUMBERS[2 * width]
            found += [f"mul.wide.{kind} {wide}8, {x}, {y};", f"mad.wide.{kind} {wide}8, {x}, {y}, {wide}6;"]
        if width > 16:
            found += [f"bfe.{kind} {to}, {x}, %r5, %r6;"]
        for other in (*INTEGERS, "u8", "s8"):
            source = NUMBERS[max(int(other[1:]), 16)]
            found += [f"cvt.{kind}.{other} {to}, {source}4;", f"cvt.{other}.{kind} {source}8, {x};"]
    for kind, letter in (("f32", "%r"), ("f64", "%d")):
        x, y, to = (f"{letter}{i}" for i in (4, 5, 8))
        found += [f"{name}.rn.{kind} {to}, {x}, {y};" for name in ("add", "sub", "mul")]
        found += [f"{name}.{kind} {to}, {x}, {y};" for name in ("min", "max")]
        found += [f"neg.{kind} {to}, {x};", f"abs.{kind} {to}, {x};"]
        for word in ("eq", "ne", "lt", "le", "gt", "ge"):
            found += [f"setp.{word}.{kind} %p5, {x}, {y};", f"setp.{word}u.{kind} %p5, {x}, {y};"]
    found += ["fma.rn.f32 %r8, %r4, %r5, %r6;", "cvt.rn.f16x2.f32 %r8, %r4, %r5;"]
    return list(dict.fromkeys(found))


def values(form: str) -> np.ndarray:
    """Of 32 lanes, three operands each."""
    rng = np.random.default_rng(list(form.encode()))
    found = rng.integers(0, 2**64, (3, 32), np.uint64) >> rng.integers(0, 64, (3, 32), np.uint64)
    if ".f32" in form or ".f64" in form:
        kind, word = (np.float32, np.uint32) if ".f32" in form else (np.float64, np.uint64)
        found[:, :24] = rng.choice(np.array(FLOAT_EDGES, kind).view(word), (3, 24))
        found[:, 24:] = rng.standard_normal((3, 8)).astype(kind).view(word)
    else:
        found[:, :24] = rng.choice(np.array(EDGES, np.uint64), (3, 24))
    if ".f16x2" in form:  # between all numbers that a half may be rounded to, and halfway
        halves = rng.integers(0, 0x7C00, (2, 16), np.uint16).view(np.float16).astype(np.float32)
        found[:2, 8:24] = halves.view(np.uint32) + rng.choice(NEAR_HALVES, (2, 16))
    return found


def registers(body: str, given: np.ndarray, out: np.ndarray, run) -> bytes:
    machine = Machine(MODULE.format(threads=32, cluster="", body=LOAD + body))
    machine.native = run
    arguments = np.array([machine.memory.add(given), machine.memory.add(out)], np.uint64)
    machine.launch((1, 1, 1), arguments.tobytes(), 1024)
    return machine.table.tobytes()


@pytest.mark.parametrize("form", forms())
def test_registers_are_as_after_the_functions(form):
    assert native.run is not None, f"{native.LIBRARY} is not built"
    for guard in ("", "@%p1 ", "@!%p1 ", "@%p3 ", "@!%p3 "):
        body = guard + form
        _, steps = prepared(MODULE.format(threads=32, cluster="", body=LOAD + body))
        assert steps[-3, 0], "Python runs it"  # before the return and the end
        given, out = values(body), np.zeros(32, np.uint64)
        assert registers(body, given, out, native.run) == registers(body, given, out, None)


def test_a_replaced_function_runs(monkeypatch):
    """Otherwise an instruction that a test has mutated would still be right."""
    _, known = operation._table["shl"]
    monkeypatch.setitem(operation._table, "shl", ((lambda ins: lambda machine, lanes: None), known))
    prepared.cache_clear()
    body = "mov.b32 %r9, 7; shl.b32 %r9, %r9, 1;"
    _, steps = prepared(MODULE.format(threads=32, cluster="", body=LOAD + body))
    prepared.cache_clear()
    assert steps[-4, 0] and not steps[-3, 0]

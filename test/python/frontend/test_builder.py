"""The C++ builder on its own: handles, constants, regions, and what it rejects."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from kiln._kiln import Builder, Module


@pytest.fixture
def builder():
    made = Builder()
    made.set_loc(made.file_loc("f.py", 1, 1, 1, 5))
    made.begin_function("f", [], [], True)
    return made


def constants(builder: Builder, *pairs: tuple[str, object]) -> str:
    for type_, value in pairs:
        builder.constant(type_, value)
    builder.end_function([])
    return builder.finish().print()


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("i1", True, "arith.constant true"),
        ("i8", -1, "arith.constant -1 : i8"),
        ("i8", 255, "arith.constant -1 : i8"),
        ("i64", 2**64 - 1, "arith.constant -1 : i64"),
        ("i64", -(2**63), "arith.constant -9223372036854775808 : i64"),
        ("f32", math.inf, "arith.constant 0x7F800000 : f32"),
        ("f32", -math.inf, "arith.constant 0xFF800000 : f32"),
        ("f32", math.nan, "arith.constant 0x7FC00000 : f32"),
        ("f32", -0.0, "arith.constant -0.000000e+00 : f32"),
        ("f16", 65520.0, "arith.constant 0x7C00 : f16"),
        ("bf16", 1.00390625, "arith.constant 1.000000e+00 : bf16"),  # ties round to even
        ("f64", 0.1, "arith.constant 1.000000e-01 : f64"),
        ("f8E5M2", 1.1, "arith.constant 1.000000e+00 : f8E5M2"),
        ("tensor<4xi1>", True, "arith.constant dense<true> : tensor<4xi1>"),
        ("tensor<4x2xf32>", -math.inf, "arith.constant dense<0xFF800000> : tensor<4x2xf32>"),
    ],
)
def test_constants_are_exact(builder, type_, value, shown):
    assert shown in constants(builder, (type_, value))


def test_no_constant_of_other_types(builder):
    with pytest.raises(ValueError, match="no constant of type"):
        builder.constant("!tile.ptr<f32>", 0)


def test_ops_types_and_attributes(builder):
    a = builder.constant("i32", 3)
    (b,) = builder.create("arith.addi", [a, a], ["i32"], {"overflowFlags": "#arith.overflow<nsw>", "skipped": None})
    builder.create("tile.print", [b], [], {"prefix": b'a "quote"', "hex": "unit"})
    assert builder.type_of(b) == "i32"
    assert builder.defining_op(b) == "arith.addi"
    builder.end_function([b])
    text = builder.finish().print()
    assert "arith.addi %c3_i32, %c3_i32 overflow<nsw> : i32" in text
    assert '"a \\22quote\\22"' in text
    assert "func.func @f() -> i32" in text
    assert Module.parse(text).print() == text


def test_segments(builder):
    builder.end_function([])
    (ptr,) = builder.begin_function("g", ["!tile.ptr<f32>"], [{}], False)
    mask, other = builder.constant("i1", True), builder.constant("f32", 0.0)
    builder.create("tile.load", [ptr, mask], ["f32"], segments=[1, 1, 0])
    builder.create("tile.load", [ptr, mask, other], ["f32"], segments=[1, 1, 1])
    builder.end_function([])
    text = builder.finish().print()
    assert "tile.load %arg0 mask %true : !tile.ptr<f32> mask i1 -> f32" in text
    assert "other" in text


def test_regions_are_taken_once(builder):
    condition = builder.constant("i1", True)
    builder.begin_region([])
    inner = builder.constant("i32", 1)
    region = builder.end_region()
    builder.reopen_region(region)
    builder.create("scf.yield", [inner], [])
    region = builder.end_region()
    other_start = builder.begin_region([])
    assert other_start == []
    builder.create("scf.yield", [builder.constant("i32", 2)], [])
    other = builder.end_region()
    builder.create("scf.if", [condition], ["i32"], regions=[region, other])
    with pytest.raises(ValueError, match="a region was used twice"):
        builder.create("scf.if", [condition], ["i32"], regions=[region, other])
    builder.begin_region(["f32"])
    builder.drop_region()
    builder.end_function([])
    assert builder.finish().print().count("scf.if") == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.create("tile.nothing", [], []), "unknown op 'tile.nothing'"),
        (lambda b: b.create("tile.barrier", [], ["i3!"]), "bad type 'i3!'"),
        (lambda b: b.create("tile.barrier", [], [], {"a": "#tile.axis<w>"}), "bad attribute"),
        (lambda b: b.end_region(), "no region is open"),
        (lambda b: b.finish(), "finish inside a function or region"),
    ],
)
def test_misuse_is_refused(builder, call, message):
    with pytest.raises(ValueError, match=message):
        call(builder)


def test_handles_are_checked(builder):
    with pytest.raises(IndexError):
        builder.create("arith.addi", [99, 99], ["i32"])


def test_finish_verifies(builder):
    a, b = builder.constant("i32", 1), builder.constant("f32", 1.0)
    builder.create("arith.addi", [a, b], ["i32"])
    builder.end_function([])
    with pytest.raises(RuntimeError, match=r"arith\.addi"):
        builder.finish()


def test_locations(builder):
    callee, caller = builder.file_loc("a.py", 3, 4, 3, 9), builder.name_loc("k", builder.file_loc("b.py", 7, 8, 7, 9))
    builder.set_loc(builder.call_loc(callee, caller))
    builder.constant("i32", 1)
    builder.end_function([])
    text = builder.finish().print(locations=True)
    assert 'loc("a.py":3:4 to :9)' in text and 'loc("b.py":7:8 to :9)' in text and "callsite(" in text


def test_open_regions_may_be_thrown_away_together():
    """As after an error in the middle of nested loops. In a process of its own, where freed memory is overwritten."""
    source = """
from kiln._kiln import Builder
for _ in range(20):
    builder = Builder()
    builder.begin_function("f", [], [], True)
    zero = builder.constant("i32", 0)
    outer = builder.begin_region(["i32"])
    ended = builder.begin_region(["i32"])
    builder.create("arith.addi", [*outer, *ended], ["i32"], {}, [], None)
    builder.end_region()
    inner = builder.begin_region(["i32"])
    for _ in range(50):
        builder.create("arith.addi", [*outer, *inner], ["i32"], {}, [], None)
    del builder
"""
    done = subprocess.run([sys.executable, "-c", source], env={**os.environ, "MALLOC_PERTURB_": "165"}, check=False)
    assert done.returncode == 0

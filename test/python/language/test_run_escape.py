"""Inline assembly on pointers, and tuples made of values that the kernel computes."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs
from running import kernel_of, launch

POINTERS = """
@jit
def same(p):
    return p

@jit
def next_one(p):
    return p + 4

@jit
def kernel(x, y, n):
    at = kl.arange(0, 64)
    address = kl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,l", [x + at], kl.int64, True, 1, portable=same)
    kl.device_assert(address == (x + at).to(kl.int64))
    moved = kl.inline_asm_elementwise(
        "add.s64 $0, $1, 4;", "=l,l", [x + at], kl.pointer_type(kl.float32), True, 1, portable=next_one)
    kl.store(y + at, kl.load(moved, mask=at < 63))
    one = kl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,l", [x], kl.pointer_type(kl.float32), True, 1, portable=same)
    kl.store(y + 63, kl.load(one + 5))
"""


def test_assembly_takes_and_gives_pointers():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    launch(POINTERS, x, y, 64)
    assert np.array_equal(y, [*range(1, 64), 5])


def test_assembly_on_pointers_assembles():
    @kiln.jit
    def kernel(x, y):
        at = kl.arange(0, 128)
        value = kl.inline_asm_elementwise("ld.global.cg.f32 $0, [$1];", "=f,l", [x + at], kl.float32, False, 1)
        kl.inline_asm_elementwise(
            "st.global.f32 [$1], $2; mov.b32 $0, 0;", "=r,l,f", [y + at, value], kl.int32, False, 1
        )

    with knobs.scope(target="sm_90a"):
        ptx = kernel.warmup(kl.float32, kl.float32).asm["ptx"]
    assert "ld.global.cg.f32" in ptx and "st.global.f32 [%rd" in ptx


COMBINED = """
@jit
def _add(a, b):
    return a + b

@jit
def _lower_and_higher(a, b):
    return kl.minimum(a, b), kl.maximum(a, b)

@jit
def add(a, b):
    return kl.inline_asm_elementwise("add.s32 $0, $1, $2;", "=r,r,r", [a, b], kl.int32, True, 1, portable=_add)

@jit
def outermost(low, high, other_low, other_high):
    low, _ = kl.inline_asm_elementwise(
        "min.s16 $0, $2, $3; max.s16 $1, $2, $3;", "=h,=h,h,h", [low, other_low], (kl.int16, kl.int16), True, 1,
        portable=_lower_and_higher)
    return low, kl.maximum(high, other_high)

@jit
def kernel(x, y, z):
    at = kl.arange(0, 256)
    value = kl.load(x + at)
    kl.store(y + at, kl.associative_scan(value, 0, add))
    kl.store(y + 256, kl.reduce(value, 0, add))
    low, high = kl.reduce((value.to(kl.int16), value.to(kl.int16)), 0, outermost)
    kl.store(z, low)
    kl.store(z + 1, high)
"""


def test_assembly_combines():
    """Combine functions of reductions and scans may use inline assembly; it gets single elements there, 16-bit ones
    included."""
    x = np.random.default_rng(3).integers(-999, 1000, 256).astype(np.int32)
    y, z = np.zeros(257, np.int32), np.zeros(2, np.int16)
    launch(COMBINED, x, y, z)
    assert np.array_equal(y, [*np.cumsum(x), x.sum()])
    assert list(z) == [x.min(), x.max()]


TUPLES = """
@jit
def scale(values, factor):
    return kl.tuple([v * factor for v in values])

@jit
def kernel(x, y, values):
    rows = kl.tuple([kl.load(x + i) for i in kl.static_range(3)])
    more = kl.tuple([v + 1 for v in values])
    twice = scale(rows, 2)
    mixed = kl.tuple((*twice, *more, 7))
    for i in kl.static_range(3):
        twice = kl.tuple([v + i for v in twice])
    kl.static_assert(len(mixed) == 6)
    for i in kl.static_range(6):
        kl.store(y + i, mixed[i])
    kl.store(y + 6, twice[2])
    kl.store(y + 7, len(kl.tuple()))
    tiles = kl.tuple([kl.zeros((4,), kl.float32) + v for v in more])
    kl.store(y + 8 + kl.arange(0, 4), tiles[0] + tiles[1])
"""


def test_tuples_of_computed_values():
    x, y = np.array([1, 2, 3], np.float32), np.zeros(12, np.float32)
    launch(TUPLES, x, y, (3, 4.5))
    assert y.tolist() == [2, 4, 6, 4, 5.5, 7, 9, 0, 9.5, 9.5, 9.5, 9.5]


def test_non_tuples_are_reported():
    from kiln.errors import CompilationError

    with pytest.raises(CompilationError, match="tuple"):
        launch("@jit\ndef kernel(y):\n    kl.store(y, kl.tuple(3)[0])\n", np.zeros(1, np.float32))


LETTERS = """
@jit
def größe(x):
    return x + 1

@jit
def ядро(вход, n):
    kl.store(вход, größe(kl.load(вход)) * n)
"""


def test_non_ascii_names():
    x = np.ones(1, np.float32)
    kernel = kernel_of(LETTERS.replace("@jit", "@kiln.jit"))
    kernel[(1,)](x, 3.0)
    assert x[0] == 6
    with knobs.scope(target="sm_90a"):
        ptx = kernel.warmup(kl.float32, 3.0).asm["ptx"]
    names = re.findall(r"\.entry\s+([^\s(]+)", ptx)
    assert names == ["kiln_u044fu0434u0440u043e"], names

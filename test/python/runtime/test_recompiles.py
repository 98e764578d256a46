"""The log says why a kernel that already has code is compiled again."""

from __future__ import annotations

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs

FACTOR = kl.constexpr(2)


@kiln.jit
def scale(x, out, n, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    kl.store(out + at, kl.load(x + at, mask=at < n) * FACTOR, mask=at < n)


@pytest.fixture
def told(caplog):
    scale.unload()
    x, out = (whole() for _ in range(2))

    def launch(**changed):
        arguments = {"x": x, "out": out, "n": 64, "BLOCK": 64, **changed}
        caplog.clear()
        with caplog.at_level("INFO", logger="kiln.jit"):
            scale[1](**arguments)
        return [message for message in caplog.messages if "again" in message]

    assert launch() == [], "the first code is no other's"
    assert launch() == []
    return launch


def whole():
    """An array whose address is a multiple of 16."""
    return next(x for x in (np.zeros(64, np.float32) for _ in range(100)) if x.ctypes.data % 16 == 0)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"n": 63}, "n is i32, before i32:16"),
        ({"n": 1 << 40}, "n is i64:16, before i32:16"),
        ({"n": 1}, "n is 1, before i32:16"),
        ({"BLOCK": 32}, "BLOCK is 32, before 64"),
        ({"num_warps": 8}, "option num_warps is 8, before None"),
        ({"x": np.zeros(64, np.float64), "n": 63}, "x is *fp64:16, before *fp32:16; n is i32, before i32:16"),
    ],
)
def test_the_reason(told, changed, reason):
    assert told(**changed) == [f"scale is compiled again: {reason}"]
    assert told(**changed) == []


def test_arrays_that_overlap(told):
    x = whole()
    (message,) = told(x=x, out=x)
    assert "x overlaps another array, before it did not" in message


@pytest.mark.skipif(knobs.target == "cuda", reason="accesses are checked on the CPU")
def test_a_switch_and_a_global(told, monkeypatch):
    with knobs.scope(check="bounds"):
        assert told() == ["scale is compiled again: check is bounds, before none"]
    monkeypatch.setattr("test_recompiles.FACTOR", kl.constexpr(3))
    assert told() == ["scale is compiled again: a global or a function that it reaches is another"]


def test_the_reason_compares_with_the_most_similar_code(told):
    told(n=63, BLOCK=32)
    assert told(BLOCK=32) == ["scale is compiled again: n is i32:16, before i32"]


def test_code_that_was_dropped(told):
    with knobs.scope(specializations=1):
        told(n=63)
        assert told() == ["scale is compiled again: n is i32:16, before i32"]

"""Signatures of `kiln compile`: how text becomes the parameters of a kernel."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import pytest
from kiln import errors
from kiln.cli.signature import parse_signature, split


@pytest.mark.parametrize(
    "text, parts",
    [
        ("x=*fp32:16, n=i32", ["x=*fp32:16", "n=i32"]),
        ("d=tensordesc<fp32[64,64]>, BLOCK=64", ["d=tensordesc<fp32[64,64]>", "BLOCK=64"]),
        ("shape=(1, 2, 3), name='a,b'", ["shape=(1, 2, 3)", "name='a,b'"]),
        ("", []),
        (" x=i32 , ", ["x=i32"]),
    ],
)
def test_commas_inside_brackets_and_quotes_do_not_split(text, parts):
    assert split(text) == parts


def _kernel(x, pair, d, n, kind: kl.constexpr, BLOCK: kl.constexpr = 64):
    pass


def test_types_values_tuples_and_defaults():
    function = kiln.jit(_kernel)
    x, pair, d, n, kind, block = parse_signature(
        "d=tensordesc<fp16[64,32]>:16, x=*fp32:16, pair=(*i8, i64), n=3, kind=kl.float32", function
    )
    assert (x.kind, x.type, x.divisible) == ("runtime", "*fp32", True)
    assert [item.type for item in pair.items] == ["*i8", "i64"]
    assert (d.type, d.divisible) == ("tensordesc<fp16[64,32]>", True)
    assert (n.kind, n.value) == ("constexpr", 3)
    assert kind.value is kl.float32
    assert (block.kind, block.value) == ("constexpr", 64)


@pytest.mark.parametrize(
    "text, message",
    [
        ("x", "expected NAME=TYPE or NAME=VALUE, got 'x'"),
        ("x=*fp32, x=*fp32", "'x' is given twice"),
        ("x=*fp32", "expected a type or a value for parameter 'pair'"),
        (
            "x=*fp32, pair=i32, d=i32, n=i32, kind=i32",
            "expected a value for 'kind' (because it is constexpr)",
        ),
        ("x=*fp32, pair=i32, d=i32, n=i32, kind=kl.floot", "'kind': kiln.language has no 'floot'"),
        ("x=*fp32, pair=i32, d=i32, n=i32, kind=1, m=i32", "the kernel has no parameter 'm'"),
    ],
)
def test_wrong_signatures_say_what_was_expected(text, message):
    with pytest.raises(errors.UserError, match=re.escape(message)):
        parse_signature(text, kiln.jit(_kernel))


def test_what_a_launch_compiles_can_be_written_down():
    import numpy as np

    @kiln.jit
    def scale(x, n, factor, BLOCK: kl.constexpr):
        offsets = kl.arange(0, BLOCK)
        kl.store(x + offsets, kl.load(x + offsets, mask=offsets < n) * factor, mask=offsets < n)

    compiled = scale[(1,)](np.ones(64, np.float32), 48, 2.0, BLOCK=64)
    parameters = parse_signature(compiled.signature, scale)
    assert tuple(parameters) == compiled.parameters

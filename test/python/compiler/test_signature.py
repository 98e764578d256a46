"""Signatures of `kiln compile`: how text becomes the parameters of a kernel."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import pytest
from kiln import errors
from kiln.cli.signature import parse_disjoint, parse_signature, split
from kiln.frontend.signature import flat_parameters


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


def _of_a_descriptor(d):
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


def test_what_copy_engines_ask_for_can_be_said():
    x, pair, d, n, *_ = parse_signature(
        "x=*fp32, pair=i64:4, d=tensordesc<fp16[4,64,32]>:16:rows, n=i32:8, kind=1", kiln.jit(_kernel)
    )
    assert (d.whole_rows, n.divisor, n.divisible, pair.divisor) == (True, 8, False, 4)
    assert [p.spelled_type for p in (x, pair, d, n)] == ["*fp32", "i64:4", "tensordesc<fp16[4,64,32]>:16:rows", "i32:8"]
    flat = {p.name: p.divisor for p in flat_parameters([d, n])}
    # Strides of host descriptors are always multiples of 16 bytes.
    assert flat == {"d": 16, "d.shape.0": 1, "d.shape.1": 1, "d.shape.2": 8,
                    "d.stride.0": 8, "d.stride.1": 8, "d.stride.2": 1, "n": 8}  # fmt: skip
    (odd,) = parse_signature("d=tensordesc<i8[64,32]>", kiln.jit(_of_a_descriptor))
    assert {p.name: p.divisor for p in flat_parameters([odd])} == {
        "d": 1, "d.shape.0": 1, "d.shape.1": 1, "d.stride.0": 16, "d.stride.1": 1
    }  # fmt: skip


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


@pytest.mark.parametrize(
    "text, apart",
    [
        (None, [False, False, False, False]),
        ("all", [True, True, True, True]),
        ("x", [True, False, False, False]),
        ("d, pair.0,", [False, True, False, True]),
        ("pair", [False, True, True, False]),  # all arrays of the tuple
    ],
)
def test_arrays_that_are_disjoint_have_names(text, apart):
    parameters = parse_signature("x=*i8, pair=(*i8, *i8, i64), d=tensordesc<i8[16]>, n=i32, kind=1", kiln.jit(_kernel))
    assert parse_disjoint(text, parameters) == apart


@pytest.mark.parametrize(
    "text, message",
    [
        ("n", "expected an array (because others have no storage), got 'n', which is i32; the arrays are x, pair.0, d"),
        ("kind", "got 'kind', which is a constexpr; the arrays are"),
        ("x,out", "the kernel has no array 'out'; the arrays are x, pair.0, d"),
        ("pair.1", "the kernel has no array 'pair.1'; did you mean 'pair.0'?"),
        ("", "expected names of arrays or 'all', got ''"),
    ],
)
def test_what_is_no_array_cannot_be_disjoint(text, message):
    parameters = parse_signature("x=*i8, pair=(*i8, i64), d=tensordesc<i8[16]>, n=i32, kind=1", kiln.jit(_kernel))
    with pytest.raises(errors.UserError, match=re.escape(message)):
        parse_disjoint(text, parameters)


def test_a_kernel_without_arrays_says_so():
    parameters = parse_signature("x=i8, pair=(i8, i64), d=i32, n=i32, kind=1", kiln.jit(_kernel))
    assert parse_disjoint("all", parameters) == []
    with pytest.raises(errors.UserError, match="which is i8; the kernel has none"):
        parse_disjoint("x", parameters)


def test_the_specialisation_of_a_launchs_arrays_can_be_written_as_text():
    import numpy as np

    @kiln.jit
    def add(x, y, out, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(out + at, kl.load(x + at) + kl.load(y + at))

    both, out = np.ones(96, np.float32), np.ones(64, np.float32)
    for arrays, names in ((both[:64], both[32:], out), "out"), ((both[:64], out.copy(), out), "x,y,out"):
        compiled = add[(1,)](*arrays, BLOCK=64)
        assert compiled.disjoint == names
        apart = parse_disjoint(compiled.disjoint, parse_signature(compiled.signature, add))
        assert apart == [name in names.split(",") for name in ("x", "y", "out")]


def test_the_signature_of_a_launch_can_be_written_as_text():
    import numpy as np

    @kiln.jit
    def scale(x, n, factor, BLOCK: kl.constexpr):
        offsets = kl.arange(0, BLOCK)
        kl.store(x + offsets, kl.load(x + offsets, mask=offsets < n) * factor, mask=offsets < n)

    compiled = scale[(1,)](np.ones(64, np.float32), 48, 2.0, BLOCK=64)
    parameters = parse_signature(compiled.signature, scale)
    assert tuple(parameters) == compiled.parameters


@pytest.mark.parametrize(
    "written, meant",
    [("*float32", "*fp32"), ("*float32:16", "*fp32:16"), ("int32", "i32"), ("float*", "*fp32"),
     ("*torch.bfloat16", "*bf16"), ("*fp23", "*fp32"), ("uint8", "u8"), ("*double", "*fp64")],
)  # fmt: skip
def test_type_names_of_other_programs_suggest_ours(written, meant):
    with pytest.raises(errors.UserError, match=re.escape(f"got '{written}' (did you mean '{meant}'?)")):
        parse_signature(f"x={written}, n=i32", kiln.jit(_two))
    assert parse_signature(f"x={meant}, n=i32", kiln.jit(_two))[0].kind == "runtime"


def _two(x, n):
    pass


@pytest.mark.parametrize(
    "text, meant",
    [("x=*fp32, count=i32, BLOK=16", "BLOCK"), ("x=*fp32, cuont=i32, BLOCK=16", "count")],
    ids=["constexpr", "number"],
)
def test_a_misspelt_parameter_is_named_rather_than_the_one_that_is_missing(text, meant):
    def kernel(x, count, BLOCK: kl.constexpr):
        pass

    with pytest.raises(errors.UserError, match=re.escape(f"did you mean {meant!r}?")):
        parse_signature(text, kiln.jit(kernel))

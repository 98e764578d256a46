"""The common type of operands and the op in the IR: the promotion rules of Triton's language, written out as tables."""

from __future__ import annotations

import pytest
from emitting import body, type_of
from kiln.errors import CompilationError

SHORT = {
    "i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip

# Usual arithmetic conversions of C: row + column.
INTEGERS = """
     i1  i8  i16 i32 i64 u8  u16 u32 u64
i1   i1  i8  i16 i32 i64 u8  u16 u32 u64
i8   i8  i8  i16 i32 i64 u8  u16 u32 u64
i16  i16 i16 i16 i32 i64 i16 u16 u32 u64
i32  i32 i32 i32 i32 i64 i32 i32 u32 u64
i64  i64 i64 i64 i64 i64 i64 i64 i64 u64
u8   u8  u8  i16 i32 i64 u8  u16 u32 u64
u16  u16 u16 u16 i32 i64 u16 u16 u32 u64
u32  u32 u32 u32 u32 i64 u32 u32 u32 u64
u64  u64 u64 u64 u64 u64 u64 u64 u64 u64
"""


def integer_cases():
    header, *rows = [line.split() for line in INTEGERS.strip().splitlines()]
    for left, *results in rows:
        for right, result in zip(header, results, strict=True):
            yield left, right, result


@pytest.mark.parametrize("left", list(SHORT))
def test_integers_meet_by_the_usual_conversions(left):
    cases = [(right, result) for row, right, result in integer_cases() if row == left]
    for right, result in cases:
        assert type_of("a + b", a=left, b=right) == SHORT[result], (left, right)


@pytest.mark.parametrize(
    "a, b, add, div",
    [
        ("fp16", "fp16", "fp16", "fp32"),
        ("bf16", "bf16", "bf16", "fp32"),
        ("fp16", "bf16", "fp16", "fp32"),
        ("bf16", "fp32", "fp32", "fp32"),
        ("fp16", "fp32", "fp32", "fp32"),
        ("fp32", "fp64", "fp64", "fp64"),
        ("fp16", "fp64", "fp64", "fp64"),
        ("i32", "fp16", "fp16", "fp32"),
        ("i64", "bf16", "fp32", "fp32"),
        ("u8", "fp32", "fp32", "fp32"),
        ("i1", "fp64", "fp64", "fp64"),
        ("fp8e4nv", "fp8e5", "fp16", "fp32"),
        ("fp8e5", "fp8e5", "fp8e5", "fp32"),
        ("fp8e5", "fp16", "fp16", "fp32"),
        ("i32", "i32", "int32", "fp32"),
        ("i64", "i64", "int64", "fp32"),
    ],
)
def test_floats_meet_in_the_wider_and_divide_in_fp32(a, b, add, div):
    assert type_of("a + b", a=a, b=b) == add
    assert type_of("b * a", a=a, b=b) == add
    assert type_of("a / b", a=a, b=b) == div


@pytest.mark.parametrize(
    "expression, a, result",
    [
        ("a + 1", "i8", "int8"),
        ("1 + a", "u64", "uint64"),
        ("a + 1", "fp16", "fp16"),
        ("a + 1.5", "fp16", "fp16"),
        ("a + 1.5", "bf16", "bf16"),
        ("a * 2.0", "fp8e5", "fp8e5"),
        ("a + 1.5", "i32", "fp32"),
        ("a + 1", "i1", "int32"),
        ("a + True", "i8", "int8"),
        ("a + 1e300", "fp32", "fp32"),
        ("a + 1e300", "i32", "fp64"),
        ("a / 2", "fp16", "fp32"),
        ("a / 2", "bf16", "fp32"),
        ("a / 2", "fp64", "fp64"),
        ("a // 2", "i8", "int8"),
        ("a % 2", "u16", "uint16"),
        ("a << 1", "i64", "int64"),
        ("1 << a", "u8", "uint8"),
        ("a < 1", "fp16", "int1"),
        ("a + N", "i64", "int64"),
    ],
)
def test_plain_numbers_adopt_the_type_of_the_tensor(expression, a, result):
    assert type_of(expression, a=a, N=7) == result


@pytest.mark.parametrize(
    "expression, a, op",
    [
        ("a // 3", "i32", "arith.divsi"),
        ("a // 3", "u32", "arith.divui"),
        ("a % 3", "i32", "arith.remsi"),
        ("a % 3", "u32", "arith.remui"),
        ("a % 3", "fp32", "arith.remf"),
        ("a >> 3", "i32", "arith.shrsi"),
        ("a >> 3", "u32", "arith.shrui"),
        ("a << 3", "u32", "arith.shli"),
        ("a < 3", "i32", "arith.cmpi slt"),
        ("a < 3", "u32", "arith.cmpi ult"),
        ("a >= 3", "u8", "arith.cmpi uge"),
        ("a == 3", "fp32", "arith.cmpf oeq"),
        ("a != 3", "fp32", "arith.cmpf une"),
        ("a > 3", "fp64", "arith.cmpf ogt"),
        ("-a", "fp32", "arith.negf"),
        ("-a", "i32", "arith.subi"),
        ("~a", "i32", "arith.xori"),
        ("a & 3", "i32", "arith.andi"),
        ("a | 3", "i32", "arith.ori"),
        ("a ^ 3", "i32", "arith.xori"),
        ("a.to(kl.fp64)", "fp32", None),
        ("a.to(kl.float64)", "fp32", "arith.extf"),
        ("a.to(kl.float16)", "fp32", "arith.truncf"),
        ("a.to(kl.float16, fp_downcast_rounding='rtz')", "fp32", "toward_zero"),
        ("a.to(kl.int32)", "fp32", "arith.fptosi"),
        ("a.to(kl.uint8)", "fp32", "arith.fptoui"),
        ("a.to(kl.float32)", "i32", "arith.sitofp"),
        ("a.to(kl.float32)", "u32", "arith.uitofp"),
        ("a.to(kl.float32)", "i1", "arith.uitofp"),
        ("a.to(kl.int64)", "i32", "arith.extsi"),
        ("a.to(kl.int64)", "u32", "arith.extui"),
        ("a.to(kl.int64)", "i1", "arith.extui"),
        ("a.to(kl.int8)", "i64", "arith.trunci"),
        ("a.to(kl.int1)", "i64", "arith.cmpi ne"),
        ("a.to(kl.int1)", "fp32", "arith.cmpf une"),
        ("a.to(kl.float32, bitcast=True)", "i32", "arith.bitcast"),
        ("a.to(kl.int64)", "*fp32", "tile.ptr_to_int"),
        ("a.to(kl.pointer_type(kl.int8))", "*fp32", "tile.ptr_cast"),
        ("a.to(kl.pointer_type(kl.int8))", "i64", "tile.int_to_ptr"),
        ("kl.maximum(a, 1.0)", "fp32", "arith.maxnumf"),
        ("kl.maximum(a, 1.0, propagate_nan=kl.PropagateNan.ALL)", "fp32", "arith.maximumf"),
        ("kl.minimum(a, 1)", "u32", "arith.minui"),
        ("kl.minimum(a, 1)", "i32", "arith.minsi"),
        ("kl.abs(a)", "i32", "math.absi"),
        ("kl.abs(a)", "bf16", "math.absf"),
        ("kl.umulhi(a, 3)", "u32", "arith.mului_extended"),
    ],
)
def test_the_op_follows_the_type(expression, a, op):
    if op is None:
        with pytest.raises(CompilationError):
            body(f"b = {expression}", a=a)
        return
    assert op in body(f"b = {expression}", a=a)


def test_same_width_integers_convert_without_an_op():
    text = body("kl.store(p, a.to(kl.uint32).to(kl.int32))", p="*i32", a="i32")
    assert "arith." not in text


def test_unsigned_offsets_are_widened_before_they_are_read_as_signed():
    text = body("kl.store(p + a, 1.0)", p="*fp32", a="u32")
    assert "arith.extui" in text and "tile.addptr %arg0, %0 : !tile.ptr<f32>, i64" in text
    text = body("kl.store(p - a, 1.0)", p="*fp32", a="u32")
    assert text.index("arith.extui") < text.index("arith.subi") < text.index("tile.addptr")


@pytest.mark.parametrize(
    "expression, kinds, message",
    [
        ("a // b", ("i32", "u32"), "one signedness"),
        ("a % b", ("u8", "i8"), "one signedness"),
        ("a // b", ("fp32", "i32"), "expected integers as operands of //"),
        ("a & b", ("fp32", "i32"), "expected integers as operands of &"),
        ("a << b", ("i32", "fp32"), "expected integers as operands of <<"),
        ("a + b", ("*fp32", "*fp32"), "two pointers"),
        ("a + b", ("*fp32", "fp32"), "expected an integer offset"),
        ("a * b", ("*fp32", "i32"), "expected numbers as operands of *"),
        ("a + 300", ("u8", "i32"), "got 300"),
        ("a + -1", ("u32", "i32"), "got -1"),
        ("a < b", ("*fp32", "*i32"), "expected numbers as operands of <"),
        ("a ** b", ("fp32", "fp32"), "kl.exp2(y * kl.log2(x))"),
        ("~a", ("fp32", "i32"), "expected an integer as operand of ~"),
        ("kl.exp(a)", ("fp16", "i32"), ".to(kl.float32)"),
        ("kl.exp(a)", ("i32", "i32"), "expected fp32 or fp64 in kl.exp"),
        ("kl.exp(a)", ("*fp32", "i32"), "load it first with kl.load"),
        ("a[b]", ("*fp32", "i32"), "kl.load(ptr + index)"),
        ("a.to('float32')", ("i32", "i32"), "write kl.float32"),
        ("a.to(kl.int16, bitcast=True)", ("fp32", "i32"), "expected a type of 32 bits"),
        ("a.to(kl.float32, fp_downcast_rounding='rtz')", ("fp16", "i32"), "only where a float narrows"),
        ("kl.clamp(a, 0, 1)", ("i32", "i32"), "expected floats in kl.clamp"),
        ("kl.fdiv(a, b)", ("i32", "i32"), "expected floats in kl.fdiv"),
    ],
)
def test_operands_that_do_not_fit_are_refused(expression, kinds, message):
    with pytest.raises(CompilationError, match=None) as caught:
        body(f"c = {expression}", a=kinds[0], b=kinds[1])
    assert message in str(caught.value)


def test_constexpr_arithmetic_is_pythons_except_the_sign_of_quotients():
    source = """
    kl.static_assert(N // 4 == -1)
    kl.static_assert(N % 4 == -3)
    kl.static_assert(N / 2 == -3.5)
    kl.static_assert(2 ** 3 == 8)
    kl.static_assert((N < 0) and not (N > 0))
    kl.static_assert(kl.cdiv(10, 4) == 3)
    kl.store(p, N * 2 + 1)
    """
    assert "arith.constant -13 : i32" in body(source, p="*i32", N=-7)

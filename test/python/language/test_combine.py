"""Reductions and scans: result types, what is combined, and what is refused; printing and assertions."""

from __future__ import annotations

import pytest
from emitting import body, emit, kernel_of, type_of
from kiln.errors import CompilationError, StaticAssertionError


@pytest.mark.parametrize(
    "expression, kind, result",
    [
        ("kl.sum(x, 0)", "fp32", "<[8], fp32>"),
        ("kl.sum(x, 1)", "fp16", "<[4], fp16>"),
        ("kl.sum(x, -1)", "bf16", "<[4], bf16>"),
        ("kl.sum(x)", "int8", "int32"),
        ("kl.sum(x)", "uint8", "uint32"),
        ("kl.sum(x)", "int1", "uint32"),
        ("kl.sum(x)", "int64", "int64"),
        ("kl.sum(x, dtype=kl.float64)", "fp32", "fp64"),
        ("kl.sum(x, 1, keep_dims=True)", "fp32", "<[4, 1], fp32>"),
        ("kl.sum(x, keep_dims=True)", "fp32", "<[1, 1], fp32>"),
        ("kl.max(x, 0)", "fp16", "<[8], fp32>"),
        ("kl.max(x, 0)", "int8", "<[8], int32>"),
        ("kl.max(x, 0, return_indices=True)[0]", "bf16", "<[8], fp32>"),
        ("kl.max(x, 0, return_indices=True)[1]", "fp32", "<[8], int32>"),
        ("kl.argmin(x, 1, keep_dims=True)", "fp32", "<[4, 1], int32>"),
        ("kl.cumsum(x, 1)", "int8", "<[4, 8], int32>"),
        ("kl.cumsum(x, 0)", "bf16", "<[4, 8], fp32>"),
        ("kl.cumprod(x, 0)", "fp32", "<[4, 8], fp32>"),
        ("kl.xor_sum(x, 0)", "int32", "<[8], int32>"),
        ("kl.reduce_or(x, 0)", "int1", "<[8], int1>"),
        ("kl.sum(kl.zeros((7, 20), kl.float32))", "fp32", "fp32"),  # 140 is not a legal side
        ("kl.max(kl.zeros((7, 20), kl.float32), return_indices=True)[1]", "fp32", "int32"),
        ("kl.softmax(x, 1)", "fp32", "<[4, 8], fp32>"),
    ],
)
def test_the_type_of_the_result(expression, kind, result):
    full = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}.get(kind, kind)
    assert type_of(expression, before=f"x = kl.zeros((4, 8), kl.{full})") == result


def test_narrow_floats_are_summed_in_fp32_and_rounded_once():
    text = body("x = kl.sum(kl.load(p + kl.arange(0, 8)), 0)\nkl.store(p, x)", p="*bf16")
    assert "tile.reduce" in text and "arith.addf %arg1, %arg2 : f32" in text and "arith.truncf" in text


def test_a_jit_function_over_a_tuple_of_tiles():
    kernel = kernel_of(
        """
        @jit
        def welford(mean1, count1, mean2, count2):
            count = count1 + count2
            return mean1 + (mean2 - mean1) * (count2 / count), count

        def kernel(p):
            x = kl.load(p + kl.arange(0, 16))
            mean, count = kl.reduce((x, kl.full((16,), 1.0, kl.float32)), 0, welford)
            kl.store(p, mean)
            a, b = kl.associative_scan((x, x), 0, welford, reverse=True)
            kl.store(p + kl.arange(0, 16), a)
        """
    )
    text = emit(kernel, p="*fp32")
    assert "(tensor<16xf32>, tensor<16xf32>) -> (f32, f32)" in text and "tile.scan" in text and "reverse" in text
    assert "func.call" not in text  # combine regions contain no calls


def test_functions_of_the_language_combine_too():
    assert "arith.maxnumf" in body("x = kl.reduce(kl.zeros((8,), kl.float32), 0, kl.maximum)")


@pytest.mark.parametrize(
    "code, message, hint",
    [
        ("kl.sum(n)", "expected a tile in kl.sum (because a scalar has nothing to combine)", None),
        ("kl.sum(x, 3)", "expected an axis of kl.sum in [-2, 2)", None),
        ("kl.sum(x, n)", "expected a constexpr integer as the axis of kl.sum", "kl.constexpr"),
        ("kl.sum(x, (0, 1))", "expected one axis or None in kl.sum", "one axis after the other"),
        ("kl.sum(p + kl.arange(0, 8))", "expected a tile of numbers", "kl.load"),
        ("kl.xor_sum(x, 0)", "expected integers in kl.xor_sum", None),
        ("kl.reduce(x, 0, 3)", "expected a combining function in kl.reduce, got 3", "@kiln.jit"),
        ("kl.reduce((x, kl.arange(0, 8)), 0, kl.maximum)", "expected tiles of one shape in kl.reduce", None),
        ("kl.argmax(n, 0)", "expected a tile in kl.max", None),
        ("kl.static_assert(n > 0)", "expected a condition known at compile time", "kl.device_assert"),
        ("kl.device_print(n)", "expected a constexpr string as first argument of kl.device_print", None),
        ("kl.device_assert(n > 0, n)", "expected a constexpr string as message", None),
        ("kl.assume(x > 0)", "expected a scalar condition in kl.assume", None),
        ("kl.unlikely(None)", "expected a condition in kl.unlikely, got None", "test it first"),
        ("kl.unlikely((x > 0, x < 4))", "expected a condition in kl.unlikely, got (", None),
        ("kl.multiple_of(x, 16)", "expected integers or pointers in kl.multiple_of", None),
        ("kl.max_contiguous(kl.arange(0, 8), (1, 2))", "expected 1 numbers in kl.max_contiguous", None),
    ],
)
def test_what_is_refused_and_why(code, message, hint):
    with pytest.raises(CompilationError) as caught:
        body(f"x = kl.zeros((4, 8), kl.float32)\ny = {code}", p="*fp32", n="i32")
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_static_assert_shows_its_message():
    with pytest.raises(StaticAssertionError, match="BLOCK must be even, got 3"):
        body("kl.static_assert(BLOCK % 2 == 0, f'BLOCK must be even, got {BLOCK}')", BLOCK=3)


def test_static_print_prints_while_compiling(capsys):
    body("kl.static_print('block', BLOCK, kl.arange(0, BLOCK).type)", BLOCK=8)
    assert capsys.readouterr().out == "block 8 <[8], int32>\n"


def test_print_and_assert_reach_the_ir():
    text = body(
        'x = kl.arange(0, 8)\nkl.device_print("x \\"quoted\\"", x, n, hex=True)\n'
        'kl.device_assert(x < n, "too far", mask=x > 2)\nkl.assume(n > 0)\nkl.debug_barrier()',
        n="i32",
    )
    assert 'tile.print "x \\22quoted\\22"' in text and "hex" in text and "isSigned = array<i32: 1, 1>" in text
    assert "tile.assert" in text and '"too far"' in text and "arith.ori" in text
    assert "tile.assume" in text and "tile.barrier" in text


def test_philox_is_unrolled_in_unsigned_words():
    text = body("r = kl.randint(seed, kl.arange(0, 16))\nkl.store(p + kl.arange(0, 16), r)", p="*i32", seed="i64")
    assert text.count("arith.mului_extended") == 20 and "tensor<16xi64>" not in text


def test_inline_asm_with_a_portable_body():
    kernel = kernel_of(
        """
        @jit
        def twice(x):
            return x * 2

        def kernel(p):
            i = kl.arange(0, 16)
            x = kl.load(p + i)
            y = kl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], kl.float32, True, 1, portable=twice)
            kl.store(p + i, y)
        """
    )
    text = emit(kernel, p="*fp32")
    assert "tile.inline_asm" in text and "portable" in text and "arith.mulf" in text and "isPure" in text

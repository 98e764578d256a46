"""Matrix products against float64: types, accumulators, precisions, sides with odd factors, storage orders of
operands."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from running import evaluate, launch, numpy_type

RNG = np.random.default_rng(9)
F16, F32, F64 = np.float16, np.float32, np.float64
# Significant bits of the accumulator types.
BITS = {np.dtype(F16): 11, np.dtype(F32): 24, np.dtype(F64): 53}


def matrix(kind: str, *shape: int) -> np.ndarray:
    ty = numpy_type(kind)
    if np.dtype(ty).kind == "i":
        return RNG.integers(-128, 128, shape).astype(ty)
    return RNG.standard_normal(shape).astype(ty)


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray, acc: Any = 0.0, roundings: float = 1) -> None:
    """Allows `roundings` to the accumulator's type in addition to those of a sum in f32; each may be off by a whole
    ulp."""
    a, b, acc = a.astype(F64), b.astype(F64), np.asarray(acc).astype(F64)
    if got.dtype == np.int32:
        np.testing.assert_array_equal(got, a @ b + acc)
        return
    size = np.abs(a) @ np.abs(b) + np.abs(acc)
    if got.dtype == F16:
        bound = size * (roundings * 2.0**-11 + a.shape[-1] * 2.0**-24)
    else:
        bound = size * (a.shape[-1] + 1) * 2.0 ** -BITS[got.dtype]
    assert np.all(np.abs(got.astype(F64) - (a @ b + acc)) <= bound)


MIXES = [
    ("float16", "float16", F32), ("float16", "float16", F16), ("bfloat16", "bfloat16", F32),
    ("float32", "float32", F32), ("float64", "float64", F64), ("int8", "int8", np.int32),
    ("float8e4nv", "float8e4nv", F32), ("float8e4nv", "float8e5", F32), ("float8e5", "float8e4nv", F16),
    ("float8e5", "float8e5", F16),
]  # fmt: skip
PRODUCT = ", out_dtype=kl.float16"


@pytest.mark.parametrize("left, right, out", MIXES)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_every_mix_of_types_with_every_accumulator(left, right, out, batch):
    a, b = matrix(left, *batch, 16, 48), matrix(right, *batch, 48, 24)
    extra = PRODUCT if out == F16 else ""
    shape = (*batch, 16, 24)
    # A tensor core rounds f16 sums once per instruction along K.
    check(evaluate(f"kl.dot(a, b{extra})", (shape, out), a=a, b=b), a, b, roundings=6)
    acc = (RNG.standard_normal(shape) * 8).astype(out)
    check(evaluate(f"kl.dot(a, b, acc{extra})", (shape, out), a=a, b=b, acc=acc), a, b, acc, roundings=6)
    got = evaluate(f"acc + kl.dot(a, b{extra})", (shape, out), a=a, b=b, acc=acc)
    check(got, a, b, acc, roundings=7)


def test_an_f16_sum_is_rounded_once():
    """M and N of 4 are too small for a tensor core, which may round in between."""
    a, b = matrix("float16", 4, 256), matrix("float16", 256, 4)
    acc = matrix("float16", 4, 4)
    got = evaluate("kl.dot(a, b, acc, out_dtype=kl.float16)", ((4, 4), F16), a=a, b=b, acc=acc)
    exact = a.astype(F64) @ b.astype(F64) + acc
    size = np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
    half_unit = np.spacing(np.abs(exact).astype(F16)).astype(F64) / 2
    assert np.all(np.abs(got - exact) <= half_unit + 256 * 2.0**-24 * size)


def test_an_f16_sum_loses_nothing_within_one_instruction():
    """1024 and then halves: the ulp of f16 is 1 there, so halves are lost one by one but not when summed first."""
    a = np.full((16, 16), 0.5, F16)
    a[:, 0] = 1024
    b = np.ones((16, 8), F16)
    got = evaluate("kl.dot(a, b, out_dtype=kl.float16)", ((16, 8), F16), a=a, b=b)
    # 1024 + 15 / 2 = 1031.5 lies between two neighbours; a hardware sum may truncate instead of rounding.
    assert np.all(np.abs(got.astype(F64) - 1031.5) <= 0.5)


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_precision_of_f32(precision):
    a, b = matrix("float32", 32, 64), matrix("float32", 64, 16)
    got = evaluate(f"kl.dot(a, b, input_precision='{precision}')", ((32, 16), F32), a=a, b=b)
    size = np.abs(a.astype(F64)) @ np.abs(b.astype(F64))
    # Bits that remain of both inputs: 11 in tf32, twice that in two parts; 8 per part of bf16.
    bits = {"ieee": 24, "tf32": 11, "tf32x3": 21, "bf16x3": 15, "bf16x6": 21}[precision]
    bound = size * (65 * 2.0**-24 + (0 if precision == "ieee" else 3 * 2.0**-bits))
    assert np.all(np.abs(got - a.astype(F64) @ b.astype(F64)) <= bound)


@pytest.mark.cpu
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_the_cpu_multiplies_f32_whatever_is_asked(precision):
    a, b = matrix("float32", 32, 64), matrix("float32", 64, 16)
    exact = evaluate("kl.dot(a, b, input_precision='ieee')", ((32, 16), F32), a=a, b=b)
    check(exact, a, b)
    got = evaluate(f"kl.dot(a, b, input_precision='{precision}')", ((32, 16), F32), a=a, b=b)
    np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize("kind", ["float16", "float32", "int8", "float8e5"])
@pytest.mark.parametrize("left", ["a", "a.T"])
@pytest.mark.parametrize("right", ["b", "b.T"])
def test_operands_in_any_major_order(kind, left, right):
    a, b = matrix(kind, 48, 16), matrix(kind, 16, 40)
    stored = {"a": a if left == "a" else a.T.copy(), "b": b if right == "b" else b.T.copy()}
    out = np.int32 if kind == "int8" else F32
    check(evaluate(f"kl.dot({left}, {right})", ((48, 40), out), **stored), a, b)


@pytest.mark.parametrize("orders", list(itertools.product(itertools.permutations(range(3)), repeat=2))[::5])
def test_batches_in_any_order(orders):
    """Each operand is stored with its three dimensions in another order and permuted back in the kernel."""
    a, b = matrix("float16", 2, 16, 24), matrix("float16", 2, 24, 8)
    stored = [np.ascontiguousarray(x.transpose(np.argsort(order))) for x, order in zip((a, b), orders, strict=True)]
    left, right = (f"kl.permute({name}, {order})" for name, order in zip("ab", orders, strict=True))
    check(evaluate(f"kl.dot({left}, {right})", ((2, 16, 8), F32), a=stored[0], b=stored[1]), a, b)


def test_the_product_transposed_and_as_an_operand():
    a, b, c = matrix("float32", 16, 24), matrix("float32", 24, 48), matrix("float32", 16, 40)
    got = evaluate("kl.dot(kl.dot(a, b, input_precision='ieee').T, c, input_precision='ieee').T", ((40, 48), F32),
                   a=a, b=b, c=c)  # fmt: skip
    inner = a.astype(F64) @ b.astype(F64)
    expected = (inner.T @ c.astype(F64)).T
    np.testing.assert_allclose(got, expected, atol=1e-3)


SIDES = [(128, 192, 32), (128, 160, 32), (192, 192, 16), (256, 112, 16), (64, 24, 16), (48, 40, 80), (112, 8, 496)]


@pytest.mark.cpu
@pytest.mark.parametrize("m, n, k", SIDES)
@pytest.mark.parametrize("kind", ["float16", "int8", "float64"])
def test_sides_with_odd_factors(m, n, k, kind):
    """Loaded with masks, multiplied, reduced both ways, transposed and stored with a mask."""
    a, b = matrix(kind, m, k), matrix(kind, k, n)
    rows, columns, depth = m - 5, n - 3, k - 7
    out = {"int8": np.int32, "float64": F64}.get(kind, F32)
    c = np.full((n, m), 77, out)
    by_row, by_column = np.zeros(m, out), np.zeros(n, out)
    launch(
        """
        def kernel(a, b, c, by_row, by_column, rows, columns, depth, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
            i, j, k = kl.arange(0, M), kl.arange(0, N), kl.arange(0, K)
            left = kl.load(a + i[:, None] * K + k, mask=(i[:, None] < rows) & (k < depth), other=0)
            right = kl.load(b + k[:, None] * N + j, mask=(k[:, None] < depth) & (j < columns), other=0)
            acc = kl.zeros((M, N), dtype=c.dtype.element_ty)
            acc = kl.dot(left, right, acc)
            kl.store(by_row + i, kl.sum(acc, 1))
            kl.store(by_column + j, kl.max(acc, 0))
            kl.store(c + j[:, None] * M + i, acc.T, mask=(j[:, None] < columns) & (i < rows))
        """,
        a, b, c, by_row, by_column, rows, columns, depth, M=m, N=n, K=k,
    )  # fmt: skip
    expected = np.zeros((m, n))
    expected[:rows, :columns] = a[:rows, :depth].astype(F64) @ b[:depth, :columns].astype(F64)
    exact = kind == "int8"
    np.testing.assert_allclose(c[:columns, :rows], expected[:rows, :columns].T, rtol=0, atol=0 if exact else 1e-4)
    assert np.all(c[columns:] == 77) and np.all(c[:, rows:] == 77)
    np.testing.assert_allclose(by_row, expected.sum(1), rtol=0, atol=0 if exact else 1e-3)
    np.testing.assert_allclose(by_column, expected.max(0), rtol=0, atol=0 if exact else 1e-4)


TILED = """
def kernel(a, b, c, M, N, K, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, STAGES: kl.constexpr):
    columns = kl.cdiv(N, BN)
    tiles = kl.cdiv(M, BM) * columns
    A = kl.make_tensor_descriptor(a, (M, K), (K, 1), (BM, BK))
    B = kl.make_tensor_descriptor(b, (N, K), (K, 1), (BN, BK))
    C = kl.make_tensor_descriptor(c, (M, N), (N, 1), (BM, BN))
    for tile in kl.range(kl.program_id(0), tiles, kl.num_programs(0), flatten=True, warp_specialize=True):
        row, column = tile // columns * BM, tile % columns * BN
        acc = kl.zeros((BM, BN), kl.float32)
        for k in kl.range(0, kl.cdiv(K, BK), num_stages=STAGES, disallow_acc_multi_buffer=True):
            acc = kl.dot(A.load([row, k * BK]), B.load([column, k * BK]).T, acc)
        C.store([row, column], acc.to(kl.float16))
"""


@pytest.mark.parametrize("programs, blocks", [(1, (48, 40, 16)), (3, (16, 24, 80)), (16, (64, 64, 32))])
def test_a_persistent_product_over_descriptors(programs, blocks):
    m, n, k = 100, 88, 120
    a, b, c = matrix("float16", m, k), matrix("float16", n, k), np.zeros((m, n), F16)
    launch(TILED, a, b, c, m, n, k, grid=(programs,), BM=blocks[0], BN=blocks[1], BK=blocks[2], STAGES=3)
    exact = a.astype(F64) @ b.astype(F64).T
    np.testing.assert_allclose(c, exact, rtol=2.0**-11, atol=1e-3)


@pytest.mark.parametrize("kind", ["float16", "float32", "int8"])
@pytest.mark.parametrize("batch", [(2, 3), (2, 1, 4), (1, 1, 2, 2)])
def test_several_batch_dimensions(kind, batch):
    a, b = matrix(kind, *batch, 16, 32), matrix(kind, *batch, 32, 16)
    out = np.int32 if kind == "int8" else F32
    shape = (*batch, 16, 16)
    check(evaluate("kl.dot(a, b)", (shape, out), a=a, b=b), a, b)
    acc = (RNG.standard_normal(shape) * 8).astype(out)
    check(evaluate("kl.dot(a, b, acc)", (shape, out), a=a, b=b, acc=acc), a, b, acc)


@pytest.mark.parametrize(
    "left, right, message",
    [
        ((2, 3, 16, 16), (2, 2, 16, 16), r"expected the same batch sides in kl.dot, got \[2, 3\] and \[2, 2\]"),
        ((2, 3, 16, 16), (3, 16, 16), "expected operands of one rank"),
        ((7, 5, 1, 16), (7, 5, 16, 1), r"at most 31 \(because they become one side\), got \[7, 5\] with 35"),
    ],
)
def test_batches_that_do_not_fit(left, right, message):
    from kiln.errors import CompilationError

    with pytest.raises(CompilationError, match=message):
        evaluate(f"kl.dot(kl.zeros({left}, kl.float32), kl.zeros({right}, kl.float32))", ((1,), F32))

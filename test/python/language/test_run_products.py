"""Products with sides that tensor cores support, in loops, in chains and on several warp groups, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from running import evaluate, launch, numpy_type

RNG = np.random.default_rng(17)
F16, F32, F64 = np.float16, np.float32, np.float64


def matrix(kind: str, *shape: int) -> np.ndarray:
    ty = numpy_type(kind)
    if np.dtype(ty).kind == "i":
        return RNG.integers(-128, 128, shape).astype(ty)
    return RNG.standard_normal(shape).astype(ty)


def close(got: np.ndarray, exact: np.ndarray, size: np.ndarray, unit: float) -> None:
    assert np.all(np.abs(got.astype(F64) - exact) <= size * unit), np.max(np.abs(got.astype(F64) - exact) / size)


LOOP = """
def kernel(a, b, c, depth, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr, LEFT: kl.constexpr, RIGHT: kl.constexpr,
           SUM: kl.constexpr, PRECISION: kl.constexpr):
    i, j, k = kl.arange(0, M), kl.arange(0, N), kl.arange(0, K)
    acc = kl.zeros((M, N), SUM)
    for start in range(0, depth, K):
        if LEFT:
            left = kl.load(a + (start + k)[:, None] * M + i).T
        else:
            left = kl.load(a + i[:, None] * depth + start + k)
        if RIGHT:
            right = kl.load(b + j[:, None] * depth + start + k).T
        else:
            right = kl.load(b + (start + k)[:, None] * N + j)
        acc = kl.dot(left, right, acc, input_precision=PRECISION, out_dtype=SUM)
    kl.store(c + i[:, None] * N + j, acc)
"""


def in_loop(a: np.ndarray, b: np.ndarray, out: Any, step: int, left: bool, right: bool, sum_: str,
            precision: str = "ieee", **options: Any) -> np.ndarray:  # fmt: skip
    c = np.zeros((a.shape[0], b.shape[1]), out)
    stored = a.T.copy() if left else a, b.T.copy() if right else b
    launch("import kiln.language as kl\n" + LOOP, *stored, c, a.shape[1], M=a.shape[0], N=b.shape[1], K=step, LEFT=left,
           RIGHT=right, SUM=getattr(__import__("kiln").language, sum_), PRECISION=precision, **options)  # fmt: skip
    return c


# Sides, step along K, warps: one warp group and several, odd sides, rows that only single warps cover.
SIDES = [(64, 64, 64, 4), (128, 96, 32, 8), (64, 176, 64, 4), (192, 48, 32, 4), (256, 32, 64, 16), (64, 64, 32, 8),
         (32, 64, 32, 4), (16, 16, 32, 4)]  # fmt: skip


@pytest.mark.parametrize("m, n, k, warps", SIDES)
@pytest.mark.parametrize("left, right", [(False, False), (True, True), (False, True)])
def test_a_loop_of_products_of_f16(m, n, k, warps, left, right):
    a, b = matrix("float16", m, 3 * k), matrix("float16", 3 * k, n)
    got = in_loop(a, b, F32, k, left, right, "float32", num_warps=warps)
    a, b = a.astype(F64), b.astype(F64)
    close(got, a @ b, np.abs(a) @ np.abs(b), 2.0**-20)


KINDS = [
    ("bfloat16", F32, "float32", 2.0**-20), ("int8", np.int32, "int32", 0), ("float8e4nv", F32, "float32", 2.0**-11),
    ("float8e5", F16, "float16", 2.0**-9), ("float16", F16, "float16", 2.0**-9),
]  # fmt: skip


@pytest.mark.parametrize("kind, out, sum_, unit", KINDS)
@pytest.mark.parametrize("m, warps", [(128, 4), (128, 8), (32, 4)])
@pytest.mark.parametrize("left, right", [(False, False), (True, False), (False, True)])
def test_a_loop_of_products_of_each_type(kind, out, sum_, unit, m, warps, left, right):
    a, b = matrix(kind, m, 128), matrix(kind, 128, 64)
    got = in_loop(a, b, out, 64, left, right, sum_, num_warps=warps)
    a, b = a.astype(F64), b.astype(F64)
    close(got, a @ b, np.abs(a) @ np.abs(b), unit)


@pytest.mark.parametrize("precision, bits", [("tf32", 11), ("tf32x3", 21), ("bf16x3", 15), ("bf16x6", 21)])
@pytest.mark.parametrize("m, warps", [(64, 4), (128, 8), (32, 4)])
def test_f32_in_parts(precision, bits, m, warps):
    a, b = matrix("float32", m, 64), matrix("float32", 64, 64)
    got = in_loop(a, b, F32, 32, False, False, "float32", precision, num_warps=warps)
    a, b = a.astype(F64), b.astype(F64)
    close(got, a @ b, np.abs(a) @ np.abs(b), 3 * 2.0**-bits + 2.0**-20)


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
@pytest.mark.parametrize("m", [64, 32])
def test_infinities_survive_in_parts(precision, m):
    a, b = matrix("float32", m, 32), np.abs(matrix("float32", 32, 64)) + 1
    a[3, 5], a[7, 9], a[11, 2] = np.inf, -np.inf, np.nan
    got = evaluate(f"kl.dot(a, b, input_precision='{precision}')", ((m, 64), F32), a=a, b=b)
    assert np.all(got[3] == np.inf) and np.all(got[7] == -np.inf) and np.all(np.isnan(got[11]))
    assert np.all(np.isfinite(np.delete(got, [3, 7, 11], axis=0)))


ATTENTION = """
def kernel(q, k, v, out, length, M: kl.constexpr, N: kl.constexpr, D: kl.constexpr):
    i, j, d = kl.arange(0, M), kl.arange(0, N), kl.arange(0, D)
    query = kl.load(q + i[:, None] * D + d)
    top = kl.full((M,), float('-inf'), kl.float32)
    total = kl.zeros((M,), kl.float32)
    acc = kl.zeros((M, D), kl.float32)
    for start in range(0, length, N):
        keys = kl.load(k + (start + j)[:, None] * D + d)
        scores = kl.dot(query, keys.T)
        higher = kl.maximum(top, kl.max(scores, 1))
        p = kl.exp2(scores - higher[:, None])
        scale = kl.exp2(top - higher)
        total = total * scale + kl.sum(p, 1)
        values = kl.load(v + (start + j)[:, None] * D + d)
        acc = kl.dot(p.to(v.dtype.element_ty), values, acc * scale[:, None])
        top = higher
    kl.store(out + i[:, None] * D + d, acc / total[:, None])
"""


@pytest.mark.parametrize("m, n, d, warps", [(64, 64, 64, 4), (128, 32, 64, 8), (64, 48, 128, 4), (32, 32, 32, 4)])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_one_product_feeds_another(m, n, d, warps, kind):
    q, k, v = matrix(kind, m, d), matrix(kind, 3 * n, d), matrix(kind, 3 * n, d)
    q = (q.astype(F32) * d**-0.5).astype(q.dtype)
    out = np.zeros((m, d), F32)
    launch("import kiln.language as kl\n" + ATTENTION, q, k, v, out, 3 * n, M=m, N=n, D=d, num_warps=warps)
    scores = q.astype(F64) @ k.astype(F64).T
    p = np.exp2(scores - scores.max(1, keepdims=True))
    exact = p @ v.astype(F64) / p.sum(1, keepdims=True)
    np.testing.assert_allclose(out, exact, atol=2.0**-6 if kind == "bfloat16" else 2.0**-9)


def test_a_tile_is_both_operands():
    """x times its transpose: one buffer, read both ways."""
    x = matrix("float16", 64, 64)
    got = evaluate("kl.dot(x, x.T) + kl.dot(x.T, x)", ((64, 64), F32), x=x)
    y = x.astype(F64)
    close(got, y @ y.T + y.T @ y, np.abs(y) @ np.abs(y).T + np.abs(y).T @ np.abs(y), 2.0**-20)


@pytest.mark.parametrize("limit, error", [(None, 2.0**-8), (64, 2.0**-10), (32, 2.0**-10), (0, 2.0**-20)])
def test_fp8_sums_are_imprecise_up_to_the_limit(limit, error):
    """Hopper sums 8-bit floats in 14 bits for up to `limit` terms, then adds the sum in f32. None: a whole dot at a
    time."""
    a, b = matrix("float8e4nv", 64, 64), matrix("float8e4nv", 64, 64)
    big = np.full((64, 64), 2.0**7, F32)
    got = evaluate(f"kl.dot(a, b, acc, max_num_imprecise_acc={limit})", ((64, 64), F32), a=a, b=b, acc=big)
    a, b = a.astype(F64), b.astype(F64)
    close(got, a @ b + big, np.abs(a) @ np.abs(b) + (big if limit is None else 0), error)


PEELED = """
import kiln.language as kl
def kernel(a, b, c, depth, M: kl.constexpr, K: kl.constexpr):
    i, k = kl.arange(0, M), kl.arange(0, K)
    acc = kl.zeros((M, M), kl.float32)
    most = kl.cdiv(depth, K) * K - K
    for start in range(0, most, K):
        left = kl.load(a + i[:, None] * depth + start + k)
        right = kl.load(b + i[:, None] * depth + start + k).T
        acc = kl.dot(left, right, acc)
    rest = (most + k < depth)[None, :]
    left = kl.load(a + i[:, None] * depth + most + k, mask=rest, other=0.0)
    right = kl.load(b + i[:, None] * depth + most + k, mask=rest, other=0.0).T
    kl.store(c + i[:, None] * M + i, kl.dot(left, right, acc))
"""


@pytest.mark.parametrize("depth", [8, 64, 72, 128, 328])
def test_a_loop_whose_last_step_is_peeled(depth):
    """The loop ends a constant distance before a bound that conditions test at another distance."""
    a, b = matrix("float16", 64, depth), matrix("float16", 64, depth)
    c = np.zeros((64, 64), F32)
    launch(PEELED, a, b, c, depth, M=64, K=64)
    close(c, a.astype(F64) @ b.T.astype(F64), np.abs(a.astype(F64)) @ np.abs(b.T.astype(F64)), 1e-5)

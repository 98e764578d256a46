"""Shapes, reductions, scans, products and sorting on the CPU against numpy; sides with an odd factor among them."""

from __future__ import annotations

import numpy as np
import pytest
from kiln.errors import KilnError
from running import evaluate, launch, numpy_type

RNG = np.random.default_rng(7)
F32 = np.float32
X = RNG.standard_normal((6, 8)).astype(F32)
V = RNG.standard_normal(24).astype(F32)


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("x.T", X.T),
        ("x.reshape(4, 12)", X.reshape(4, 12)),
        ("kl.ravel(x)", X.ravel()),
        ("kl.permute(x.reshape(2, 3, 8), (2, 0, 1))", X.reshape(2, 3, 8).transpose(2, 0, 1)),
        ("x[:, None, :] + x[None, :, :]", X[:, None] + X[None]),
        ("kl.join(x, -x)", np.stack([X, -X], -1)),
        ("kl.split(x.reshape(6, 4, 2))[1]", X.reshape(6, 4, 2)[..., 1]),
        ("kl.interleave(x, -x)", np.stack([X, -X], -1).reshape(6, 16)),
        ("kl.cat(x, -x)", np.concatenate([X, -X])),
        ("kl.cat(x, -x, dim=1)", np.concatenate([X, -X], 1)),
        ("kl.flip(x)", X[:, ::-1]),
        ("kl.flip(x, 0)", X[::-1]),
        ("kl.broadcast_to(x[None], (3, 6, 8))", np.broadcast_to(X, (3, 6, 8))),
        ("kl.broadcast_to(kl.expand_dims(kl.sum(x, 1), 1), (6, 8)) * 0 + x", X),
        ("kl.gather(x, kl.broadcast_to(7 - kl.arange(0, 8)[None, :], (6, 8)), 1)", X[:, ::-1]),
        ("kl.gather(x, kl.full((2, 8), 3, kl.int32), 0)", X[[3, 3]]),
        ("kl.sort(x)", np.sort(X, -1)),
        ("kl.sort(x, descending=True)", -np.sort(-X, -1)),
        ("kl.topk(x, 3)", -np.sort(-X, -1)[:, :3]),
        ("kl.topk(x, 3, descending=False)", np.sort(X, -1)[:, :3]),
        ("kl.zeros_like(x) + 2", np.full_like(X, 2)),
        ("kl.full((6, 8), 1.5, kl.float32) * x", 1.5 * X),
    ],
)
def test_shapes(expression, expected):
    got = evaluate(expression, (expected.shape, F32), x=X)
    np.testing.assert_array_equal(got, expected)


def test_histogram_counts_only_values_in_range():
    x = RNG.integers(-2, 12, 96).astype(np.int32)
    expected = np.bincount(x[(x >= 0) & (x < 8)], minlength=8)
    np.testing.assert_array_equal(evaluate("kl.histogram(x, 8)", ((8,), np.int32), x=x), expected)
    masked = x[:40]
    expected = np.bincount(masked[(masked >= 0) & (masked < 8)], minlength=8)
    got = evaluate("kl.histogram(x, 8, mask=kl.arange(0, 96) < n)", ((8,), np.int32), x=x, n=40)
    np.testing.assert_array_equal(got, expected)


def test_narrow_unsigned_integers_work_as_indices_and_counts():
    u = RNG.integers(0, 256, 96).astype(np.uint8)
    got = evaluate("kl.histogram(u, 256)", ((256,), np.int32), u=u)
    np.testing.assert_array_equal(got, np.bincount(u, minlength=256))
    x = RNG.standard_normal(256).astype(F32)
    np.testing.assert_array_equal(evaluate("kl.gather(x, u, 0)", ((96,), F32), x=x, u=u), x[u])


@pytest.mark.parametrize("kind", ["uint8", "uint32", "int1", "float16", "bfloat16", "float8e5"])
def test_order_follows_the_type(kind):
    ty = np.dtype(numpy_type(kind))
    raw = RNG.integers(0, 2 if kind == "int1" else 256, 96 * ty.itemsize).astype(np.uint8)
    x = raw.view(ty).reshape(6, 16)
    if kind.startswith(("float", "bfloat")):
        x = np.where(np.isnan(x.astype(F32)), 1, x.astype(F32)).astype(ty)
    wide = x.astype(np.float64)
    got = evaluate("kl.sort(x)", ((6, 16), ty), x=x).astype(np.float64)
    np.testing.assert_array_equal(got, np.sort(wide))
    got = evaluate("kl.argmax(x, 1)", ((6,), np.int32), x=x)
    np.testing.assert_array_equal(got, wide.argmax(1))
    out = F32 if kind.startswith(("float", "bfloat")) else np.int32
    if kind != "uint32":
        got = evaluate("kl.max(x, 1)", ((6,), out), x=x)
        np.testing.assert_array_equal(got, wide.max(1))


@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("keep", [False, True])
def test_sums_and_extrema(axis, keep):
    x = RNG.integers(-50, 50, (4, 6, 16)).astype(F32)
    for name, function in (("sum", np.sum), ("max", np.max), ("min", np.min)):
        expected = np.asarray(function(x, axis=axis, keepdims=keep))
        got = evaluate(f"kl.{name}(x, {axis}, keep_dims={keep})", (expected.shape, F32), x=x)
        np.testing.assert_array_equal(got, expected, name)
    if axis is not None:
        for name, function in (("argmax", np.argmax), ("argmin", np.argmin)):
            expected = function(x, axis=axis, keepdims=keep)
            got = evaluate(f"kl.{name}(x, {axis}, keep_dims={keep})", (expected.shape, np.int32), x=x)
            np.testing.assert_array_equal(got, expected, name)


def test_sum_over_more_elements_than_one_side_may_have():
    x = RNG.integers(-50, 50, (7, 20)).astype(F32)
    assert evaluate("kl.sum(x)", ((), F32), x=x) == x.sum()
    assert evaluate("kl.max(x, return_indices=True)[1]", ((), np.int32), x=x) == x.argmax()


def test_ties_go_to_the_first():
    x = np.array([3, 9, 9, 1, 9, 1, 1, 3], F32)
    assert evaluate("kl.argmax(x, 0)", ((), np.int32), x=x) == 1
    assert evaluate("kl.argmin(x, 0)", ((), np.int32), x=x) == 3


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "float16", "bfloat16", "int64"])
def test_narrow_types_are_summed_wide(kind):
    ty = numpy_type(kind)
    x = RNG.integers(0, 100, 96).astype(ty)
    out = {"int8": np.int32, "uint8": np.uint32, "int16": np.int32}.get(kind, ty)
    expected = x.astype(np.float64).sum().astype(out)
    got = evaluate("kl.sum(x, 0)", ((), out), x=x)
    assert got.astype(np.float64) == expected.astype(np.float64)


def test_bits_are_combined():
    x = RNG.integers(0, 1 << 30, (4, 8)).astype(np.int32)
    np.testing.assert_array_equal(evaluate("kl.xor_sum(x, 1)", ((4,), np.int32), x=x), np.bitwise_xor.reduce(x, 1))
    np.testing.assert_array_equal(evaluate("kl.reduce_or(x, 0)", ((8,), np.int32), x=x), np.bitwise_or.reduce(x, 0))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_and_products(axis, reverse):
    x = RNG.integers(1, 4, (6, 8)).astype(F32)
    y = np.flip(x, axis) if reverse else x
    for name, function in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
        expected = function(y, axis)
        expected = np.flip(expected, axis) if reverse else expected
        got = evaluate(f"kl.{name}(x, {axis}, reverse={reverse})", ((6, 8), F32), x=x)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


COMBINE = """
@jit
def welford(mean1, m1, count1, mean2, m2, count2):
    delta = mean2 - mean1
    count = count1 + count2
    share = count2 / count
    return mean1 + delta * share, m1 + m2 + delta * delta * count1 * share, count

@jit
def first(a, b):
    return a

def kernel(x_ptr, out_ptr, scan_ptr):
    i = kl.arange(0, 96)
    x = kl.load(x_ptr + i)
    mean, m2, count = kl.reduce((x, kl.zeros_like(x), kl.full((96,), 1.0, kl.float32)), 0, welford)
    kl.store(out_ptr, mean)
    kl.store(out_ptr + 1, m2 / count)
    kl.store(scan_ptr + i, kl.associative_scan(x, 0, first, reverse=True))
"""


def test_a_users_function_over_a_tuple():
    x = RNG.standard_normal(96).astype(F32)
    out, running = np.zeros(2, F32), np.zeros(96, F32)
    launch(COMBINE, x, out, running)
    np.testing.assert_allclose(out, [x.astype(np.float64).mean(), x.astype(np.float64).var()], rtol=1e-5, atol=1e-6)
    # In a reverse scan, the left operand of the combine function is what was scanned first, from the end.
    np.testing.assert_array_equal(running, np.full(96, x[-1]))


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float64", "int8", "float8e4nv", "float8e5"])
def test_dot(kind):
    ty = numpy_type(kind)
    a = RNG.integers(-4, 5, (16, 24)).astype(ty)
    b = RNG.integers(-4, 5, (24, 32)).astype(ty)
    out = {"int8": np.int32, "float64": np.float64}.get(kind, F32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(evaluate("kl.dot(a, b)", ((16, 32), out), a=a, b=b), exact)
    acc = np.full((16, 32), 3, out)
    np.testing.assert_array_equal(evaluate("kl.dot(a, b, acc)", ((16, 32), out), a=a, b=b, acc=acc), exact + 3)


def test_dot_of_batches_and_transposed_operands():
    a = RNG.integers(-4, 5, (2, 16, 8)).astype(F32)
    b = RNG.integers(-4, 5, (2, 16, 8)).astype(F32)
    got = evaluate("kl.dot(a, kl.trans(b))", ((2, 16, 16), F32), a=a, b=b)
    np.testing.assert_array_equal(got, a @ b.transpose(0, 2, 1))


def test_dot_scaled():
    ty = numpy_type("float8e4nv")
    a, b = RNG.integers(-4, 5, (16, 64)).astype(ty), RNG.integers(-4, 5, (64, 16)).astype(ty)
    sa = RNG.integers(120, 132, (16, 2)).astype(np.uint8)
    sb = RNG.integers(120, 132, (16, 2)).astype(np.uint8)
    scale_a = np.repeat(2.0 ** (sa.astype(np.float64) - 127), 32, 1)
    scale_b = np.repeat(2.0 ** (sb.astype(np.float64) - 127), 32, 1).T
    exact = (a.astype(np.float64) * scale_a) @ (b.astype(np.float64) * scale_b)
    got = evaluate('kl.dot_scaled(a, sa, "e4m3", b, sb, "e4m3")', ((16, 16), F32), a=a, b=b, sa=sa, sb=sb)
    np.testing.assert_allclose(got, exact, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(axis):
    x = (X * 20).astype(np.float64)
    e = np.exp(x - x.max(axis, keepdims=True))
    got = evaluate(f"kl.softmax(x, {axis})", ((6, 8), F32), x=X * 20)
    np.testing.assert_allclose(got, e / e.sum(axis, keepdims=True), rtol=3e-6, atol=1e-30)


def test_swizzle2d_walks_groups_of_rows():
    place = np.arange(16)
    i, j = np.divmod(place, 4)
    rows = evaluate("kl.swizzle2d(i, j, 4, 4, 2)[0]", ((16,), np.int32), i=i.astype(np.int32), j=j.astype(np.int32))
    columns = evaluate("kl.swizzle2d(i, j, 4, 4, 2)[1]", ((16,), np.int32), i=i.astype(np.int32), j=j.astype(np.int32))
    assert list(rows[:8]) == [0, 1, 0, 1, 0, 1, 0, 1] and list(columns[:8]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(zip(rows, columns, strict=True)) == [(r, c) for r in range(4) for c in range(4)]


def test_map_elementwise():
    got = evaluate("kl.map_elementwise(kl.maximum, x, 0.5)", ((6, 8), F32), x=X)
    np.testing.assert_array_equal(got, np.maximum(X, 0.5))


def test_nan_and_infinity_survive_sorting_and_reducing():
    x = np.array([1, np.inf, -np.inf, 4, 2, 8, 0, -1], F32)
    np.testing.assert_array_equal(evaluate("kl.sort(x)", ((8,), F32), x=x), np.sort(x))
    assert evaluate("kl.min(x, 0)", ((), F32), x=x) == -np.inf


ESCAPES = """
@jit
def twice_and_sum(a, b):
    return a * 2, a + b

def kernel(x_ptr, y_ptr, out_ptr):
    i = kl.arange(0, 16)
    x, y = kl.load(x_ptr + i), kl.load(y_ptr + i)
    p, q = kl.inline_asm_elementwise(
        "{ add.f32 $0, $2, $2; add.f32 $1, $2, $3; }", "=f,=f,f,f", [x, y], (kl.float32, kl.float32), True, 1,
        portable=twice_and_sum,
    )
    r, s = kl.map_elementwise(twice_and_sum, x, y)
    kl.store(out_ptr + i, p)
    kl.store(out_ptr + 16 + i, q)
    kl.store(out_ptr + 32 + i, r)
    kl.store(out_ptr + 48 + i, s)
"""


def test_assembly_of_another_machine_runs_its_portable_body():
    x, y, out = RNG.standard_normal(16).astype(F32), RNG.standard_normal(16).astype(F32), np.zeros((4, 16), F32)
    launch(ESCAPES, x, y, out)
    np.testing.assert_array_equal(out, [x * 2, x + y, x * 2, x + y])


@pytest.mark.cpu
def test_assembly_without_a_portable_body_is_rejected_by_name():
    with pytest.raises(KilnError, match=r"add\.f32"):
        evaluate(
            'kl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], kl.float32, True, 1)', ((6, 8), F32), x=X
        )


def test_every_nan_is_sorted_last():
    x = np.array([1, np.nan, -2, np.inf, 5, np.nan, 0, -np.inf], F32)
    np.testing.assert_array_equal(evaluate("kl.sort(x)", ((8,), F32), x=x), np.sort(x))

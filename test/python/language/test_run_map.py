"""Scalar functions with branches, loops and effects, applied elementwise; combine functions that store."""

from __future__ import annotations

import numpy as np
import pytest
from kiln.errors import CompilationError, DeviceAssertError
from kiln.runtime import placement
from running import launch

RNG = np.random.default_rng(31)
F32, I32 = np.float32, np.int32
X = RNG.standard_normal((4, 24)).astype(F32)
N = RNG.integers(-5, 60, (4, 24)).astype(I32)
M = RNG.integers(-5, 60, (4, 24)).astype(I32)

FUNCTIONS = """
@jit
def compare(a, b):
    if a < b:
        return -1
    elif a == b:
        return 0
    else:
        return 1

@jit
def selu(x, alpha):
    if x > 0:
        return x
    return alpha * (kl.exp(x) - 1)

@jit
def quotient_and_rest(a, b):
    if b > 0:
        return a // b, a % b
    return a, b

@jit
def collatz(n):
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps

@jit
def triangle(n):
    total = 0
    for i in range(n):
        if i % 3 != 0:
            total += i
    return total

@jit
def horner(x):
    total = x
    for i in range(5):
        total = total * x + i
    return total

@jit
def pairs(a0, a1, b0, b1):
    if a0 < a1:
        return a0, a1, b0 - b1, b1 - b0
    return a1, a0, b1, b0
"""


def run(call, outs, *arrays):
    """The result of `result = call` (a tuple of as many tiles as `outs`) for the tiles x, y, … loaded from `arrays`."""
    shape = arrays[0].shape
    offsets = "at = kl.arange(0, 4)[:, None] * 24 + kl.arange(0, 24)[None, :]" if len(shape) == 2 else (
        f"at = kl.arange(0, {shape[0]})")  # fmt: skip
    names = "xyz"[: len(arrays)]
    found = [np.zeros(shape, kind) for kind in outs]
    parameters = [*(f"{n}_ptr" for n in names), *(f"out{i}" for i in range(len(outs)))]
    lines = [offsets, *(f"{n} = kl.load({n}_ptr + at)" for n in names), f"result = {call}"]
    lines += [f"kl.store(out{i} + at, result[{i}])" for i in range(len(outs))] if len(outs) > 1 else (
        ["kl.store(out0 + at, result)"])  # fmt: skip
    body = "\n".join("    " + line for line in lines)
    launch(f"{FUNCTIONS}\n@jit\ndef kernel({', '.join(parameters)}):\n{body}\n", *arrays, *found)
    return found if len(found) > 1 else found[0]


def test_branches():
    np.testing.assert_array_equal(run("kl.map_elementwise(compare, x, y)", [I32], N, M), np.sign(N - M))
    exact = np.where(X > 0, X, 1.5 * np.expm1(X.astype(np.float64)))
    np.testing.assert_allclose(run("kl.map_elementwise(selu, x, 1.5)", [F32], X), exact, rtol=1e-6, atol=1e-6)


def test_several_results():
    low, rest = run("kl.map_elementwise(quotient_and_rest, x, y)", [I32, I32], N, M)
    divisor = np.where(M > 0, M, 1)
    quotient = np.trunc(N / divisor).astype(I32)
    np.testing.assert_array_equal(low, np.where(M > 0, quotient, N))
    np.testing.assert_array_equal(rest, np.where(M > 0, N - quotient * divisor, M))


def test_loops_end_for_each_element():
    def collatz(n):
        steps = 0
        while n > 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    np.testing.assert_array_equal(run("kl.map_elementwise(collatz, x)", [I32], N), np.vectorize(collatz)(N))
    sums = np.vectorize(lambda n: sum(i for i in range(n) if i % 3))(N)
    np.testing.assert_array_equal(run("kl.map_elementwise(triangle, x)", [I32], N), sums)
    exact = X.astype(np.float64)
    for i in range(5):
        exact = exact * X + i
    np.testing.assert_allclose(run("kl.map_elementwise(horner, x)", [F32], X), exact, rtol=1e-4, atol=1e-4)


def test_several_elements_at_a_time():
    y = X[::-1].copy()
    first, second = run("kl.map_elementwise(pairs, x, y, pack=2)", [F32, F32], X, y)
    x0, x1, y0, y1 = X[:, 0::2], X[:, 1::2], y[:, 0::2], y[:, 1::2]
    less = x0 < x1
    np.testing.assert_array_equal(first[:, 0::2], np.minimum(x0, x1))
    np.testing.assert_array_equal(first[:, 1::2], np.maximum(x0, x1))
    np.testing.assert_array_equal(second[:, 0::2], np.where(less, y0 - y1, y1))
    np.testing.assert_array_equal(second[:, 1::2], np.where(less, y1 - y0, y0))


def test_four_elements_at_a_time():
    source = """
@jit
def rotate(a, b, c, d):
    return b, c, d, a

@jit
def kernel(x, y):
    at = kl.arange(0, 32)
    kl.store(y + at, kl.map_elementwise(rotate, kl.load(x + at), pack=4))
"""
    x, y = np.arange(32, dtype=F32), np.zeros(32, F32)
    launch(source, x, y)
    np.testing.assert_array_equal(y, np.roll(x.reshape(8, 4), -1, 1).ravel())


EFFECTS = """
@jit
def visit(p, x, count, limit):
    if x > limit:
        kl.store(p, -x)
        kl.atomic_add(count, 1)
    elif x < -limit:
        kl.store(p, kl.load(p + 64))

@jit
def kernel(out, x, count, limit):
    at = kl.arange(0, 64)
    kl.map_elementwise(visit, out + at, kl.load(x + at), count, limit)
"""


def test_only_the_elements_that_take_a_branch_touch_memory():
    x = RNG.standard_normal(64).astype(F32)
    out, count = np.arange(128, dtype=F32), np.zeros(1, I32)
    launch(EFFECTS, out, x, count, 0.5)
    expected = np.where(x > 0.5, -x, np.where(x < -0.5, np.arange(64, 128), np.arange(64))).astype(F32)
    np.testing.assert_array_equal(out[:64], expected)
    assert count[0] == (x > 0.5).sum() and np.array_equal(out[64:], np.arange(64, 128))


def test_scalars_are_mapped_too():
    x, out = np.array([-2], F32), np.zeros(1, F32)
    launch(
        FUNCTIONS + "\n@jit\ndef kernel(x, out):\n    kl.store(out, kl.map_elementwise(selu, kl.load(x), 2.0))", x, out
    )
    np.testing.assert_allclose(out, 2 * np.expm1(-2.0), rtol=1e-6)


COMBINE = """
@jit
def checked(a, b):
    total = a.to(kl.int64) + b.to(kl.int64)
    kl.device_assert((total >= -(2**31)) & (total < 2**31), "overflow")
    return a + b
"""


@pytest.mark.parametrize("count", [1, 2, 64, 7, 24, 62, 1024])
def test_a_reduction_whose_combine_function_stores(count):
    # Every element but the largest loses exactly once, and is marked.
    x, out, marks = RNG.permutation(count).astype(F32), np.full(1, -1, F32), np.zeros(count, I32)
    source = f"""
@jit
def better(a, p, b, q):
    loser = p
    if a > b:
        loser = q
    kl.store(loser.to(kl.pointer_type(kl.int32)), 1)
    return kl.where(a > b, a, b), kl.where(a > b, p, q)

@jit
def kernel(x, out, marks):
    at = kl.arange(0, {count})
    value, place = kl.reduce((kl.load(x + at), (marks + at).to(kl.int64)), 0, better)
    kl.store(out, value)
"""
    launch(source, x, out, marks)
    assert out[0] == count - 1
    np.testing.assert_array_equal(marks, x != count - 1)


@pytest.mark.parametrize("axis, shape", [(0, (8, 6)), (1, (8, 6)), (0, (3, 8)), (None, (4, 4))])
def test_an_asserting_reduction_of_each_axis(axis, shape):
    x = RNG.integers(-99, 99, shape).astype(I32)
    rest = () if axis is None else tuple(side for dim, side in enumerate(shape) if dim != axis)
    out = np.zeros(rest or (1,), I32)
    where = f"kl.arange(0, {rest[0]})" if rest else "0"
    rows = f"kl.arange(0, {shape[0]})[:, None] * {shape[1]} + kl.arange(0, {shape[1]})[None, :]"
    statement = f"kl.store(out + {where}, kl.reduce(kl.load(x + {rows}), {axis}, checked))"
    launch(f"{COMBINE}\n@jit\ndef kernel(x, out):\n    {statement}", x, out)
    np.testing.assert_array_equal(out.reshape(rest), x.sum(axis))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 5, 16, 24])
def test_an_asserting_scan(count, reverse):
    x, out = RNG.integers(-99, 99, count).astype(I32), np.zeros(count, I32)
    launch(
        f"{COMBINE}\n@jit\ndef kernel(x, out):\n    at = kl.arange(0, {count})\n"
        f"    kl.store(out + at, kl.associative_scan(kl.load(x + at), 0, checked, reverse={reverse}))",
        x, out,
    )  # fmt: skip
    np.testing.assert_array_equal(out, np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x))


def test_the_order_of_a_combine_function_with_effects_is_kept():
    # Composition of functions a x + b: associative, not commutative. A zero in a would hide what is left of it.
    a, b = RNG.permutation([-1, 1, 1, 2] * 6).astype(I32), RNG.integers(-2, 3, 24).astype(I32)
    out = np.zeros(2, I32)
    launch(
        """
@jit
def compose(a, b, c, d):
    kl.device_assert(a < 1000000)
    return a * c, b * c + d

@jit
def kernel(a, b, out):
    at = kl.arange(0, 24)
    x, y = kl.reduce((kl.load(a + at), kl.load(b + at)), 0, compose)
    kl.store(out, x)
    kl.store(out + 1, y)
""",
        a, b, out,
    )  # fmt: skip
    x, y = 1, 0
    for p, q in zip(a.tolist(), b.tolist(), strict=True):
        x, y = x * p, y * p + q
    assert out.tolist() == [x, y]


@pytest.mark.skipif(placement.names_gpu(__import__("kiln").knobs.target), reason="assertions of a GPU come later")
@pytest.mark.parametrize("call", ["kl.reduce(v, 0, checked)", "kl.associative_scan(v, 0, checked)"])
def test_an_assertion_that_fails_is_named(call):
    x = np.full(64, 2**27, I32)
    with pytest.raises(DeviceAssertError, match="overflow"):
        launch(
            f"{COMBINE}\n@jit\ndef kernel(x):\n    at = kl.arange(0, 64)\n    v = kl.load(x + at)\n"
            f"    kl.store(x + at, {call})", x,
        )  # fmt: skip


@pytest.mark.parametrize("call", ["kl.reduce(x, 1, far)", "kl.associative_scan(x, 1, far)"])
def test_combine_functions_with_branches(call):
    # Selects the value further from zero; both sides of the branch compute something.
    source = f"""
@jit
def far(a, b):
    if kl.abs(a) >= kl.abs(b):
        c = a * 1.0
    else:
        c = b + 0.0
    return c

@jit
def kernel(x_ptr, out):
    at = kl.arange(0, 4)[:, None] * 24 + kl.arange(0, 24)[None, :]
    x = kl.load(x_ptr + at)
    kl.store(out + {"kl.arange(0, 4)" if "reduce" in call else "at"}, {call})
"""
    running = X.copy()
    for i in range(1, 24):
        keep = np.abs(running[:, i - 1]) >= np.abs(X[:, i])
        running[:, i] = np.where(keep, running[:, i - 1], X[:, i])
    out = np.zeros((4,) if "reduce" in call else X.shape, F32)
    launch(source, X, out)
    np.testing.assert_array_equal(out, running[:, -1] if "reduce" in call else running)


MISTAKES = [
    ("kl.map_elementwise(tile, x)", "expected scalars in tile"),
    ("kl.map_elementwise(waits, x)", "got kl.debug_barrier in waits"),
    ("kl.map_elementwise(asks, x)", "got kl.prefetch in asks"),
    ("kl.map_elementwise(compare, x, x, pack=3)", "expected a power of two as pack"),
    ("kl.map_elementwise(compare, x, pack=16)", "divides the last side, which is 24, got 16"),
    ("kl.map_elementwise(mixed, x, pack=2)", "to have one type"),
]


@pytest.mark.parametrize("call, message", MISTAKES, ids=[m for _, m in MISTAKES])
def test_mistakes(call, message):
    source = (
        FUNCTIONS
        + f"""
@jit
def tile(a):
    return kl.sum(kl.arange(0, 4))

@jit
def waits(a):
    kl.debug_barrier()
    return a

@jit
def asks(a):
    kl.prefetch(a.to(kl.int64).to(kl.pointer_type(kl.int8), bitcast=True))
    return a

@jit
def mixed(a, b):
    return a, 1

@jit
def kernel(x_ptr):
    x = kl.load(x_ptr + kl.arange(0, 24))
    kl.store(x_ptr, kl.sum({call}))
"""
    )
    with pytest.raises(CompilationError, match=message):
        launch(source, X)

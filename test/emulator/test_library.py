"""The kernel library and random programs as PTX, in two orders of warps: right, and the same in both.

Shapes are the smallest that take a form of code: rows in one warp, in several, in a cluster; partly filled tiles.
"""

import importlib

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest
from fuzz.check import check
from fuzz.generate import generate
from fuzz.kinds import Undefined
from harness import assert_close, random
from kiln.kernels import (
    activation,
    attention,
    attention_varlen,
    decode_attention,
    gemm,
    norm,
    optimizer,
    reduce,
    rope,
    rope_tables,
    softmax,
)
from kiln.kernels.rows import RowPlan

# Two that take ten seconds each are left out.
PROGRAMS = [number for number in range(34) if number not in (18, 20)]
# A third of the programs drawn are too large for a GPU, or take too long to compile. Another takes the place of each;
# if this many in a row are refused, something else is wrong.
DRAWS = 8


def exactly(family):
    return importlib.import_module(f"kiln.kernels.{family}.reference")


@pytest.fixture
def close(launched):
    """Runs in both orders; every result is close to the exact one and bit for bit that of the other order."""

    def compare(function, exact, **rule):
        first, second = (out if isinstance(out, tuple) else (out,) for out in launched(function))
        for one, other, want in zip(first, second, exact if isinstance(exact, tuple) else (exact,), strict=True):
            assert_close(one, want, **rule)
            assert one.tobytes() == other.tobytes(), "the order of warps shows"

    return compare


PLANS = {
    "one warp": (RowPlan(256, num_warps=1), 2, 200),
    "warps": (RowPlan(2048, num_warps=4), 1, 2048),
    "rows": (RowPlan(128, rows=4, num_warps=4), 5, 100),
    "loop": (RowPlan(512, num_warps=4, loop=True), 1, 1300),
    "cluster": (RowPlan(4096, num_warps=2, cluster=4), 2, 4096),
    "cluster of 2": (RowPlan(2048, num_warps=4, cluster=2), 1, 2000),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rms_norm(rng, close, name, dtype):
    plan, rows, n = PLANS[name]
    x, weight = random(rng, (rows, n), dtype), random(rng, n, dtype)
    close(lambda: norm.rms_norm(x, weight, plan=plan), exactly("norm").rms_norm(x, weight), length=n)


@pytest.mark.parametrize("name", ["warps", "rows", "cluster"])
def test_layer_norm(rng, close, name):
    """Two statistics, one after the other: the second exchange reuses the memory of the first."""
    plan, rows, n = PLANS[name]
    x, weight, bias = random(rng, (rows, n), "bfloat16"), random(rng, n, "bfloat16"), random(rng, n, "bfloat16")
    close(lambda: norm.layer_norm(x, weight, bias, plan=plan), exactly("norm").layer_norm(x, weight, bias), length=n)


@pytest.mark.parametrize("n", [512, 500])
def test_layer_norm_of_rows_in_turns(rng, close, n):
    """The next row arrives while the exchanges of this one run."""
    x, weight, bias = (random(rng, shape, "float16") for shape in ((7, n), n, n))
    plan = RowPlan(512, num_warps=2, programs=3)
    close(lambda: norm.layer_norm(x, weight, bias, plan=plan), exactly("norm").layer_norm(x, weight, bias), length=n)


@kiln.jit
def _halve(x, y, count, BLOCK: kl.constexpr):
    value = kl.load(x + kl.arange(0, BLOCK))
    times = 0
    while kl.max(kl.abs(value), axis=0) > 1.0:
        value *= 0.5
        times += 1
    kl.store(y + kl.arange(0, BLOCK), value)
    kl.store(count, times)


@pytest.mark.parametrize("cluster", [2, 8])
def test_a_loop_until_the_cluster_agrees(rng, close, cluster):
    """The exchange is inside the loop; its remote addresses are computed before it, in all lanes."""
    x = random(rng, 256, "float32") * np.float32(100)
    halvings = int(np.floor(np.log2(np.abs(x).max()))) + 1

    def launch():
        y, count = np.zeros_like(x), np.zeros(1, np.int32)
        _halve[(1,)](x, y, count, BLOCK=256, num_warps=2, cluster=cluster)
        assert count[0] == halvings
        return y

    close(launch, x * 0.5**halvings)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_residual_rms_norm(rng, close, dtype):
    """The sum is rounded, stored and widened again, bfloat16 in pairs."""
    plan, rows, n = PLANS["cluster"]
    x, residual = (random(rng, (rows, n), dtype) for _ in range(2))
    weight = random(rng, n, dtype)
    exact = exactly("norm").residual_rms_norm(x, residual, weight)
    close(lambda: norm.residual_rms_norm(x, residual, weight, plan=plan), exact, length=n)


@pytest.mark.parametrize("name", PLANS)
def test_softmax(rng, close, name):
    plan, rows, n = PLANS[name]
    x = random(rng, (rows, n), "float16", scale=4)
    close(lambda: softmax(x, plan=plan), exactly("softmax").softmax(x), length=n)


@pytest.mark.parametrize(
    "plan",
    [RowPlan(2048, num_warps=4), RowPlan(2048, num_warps=2, cluster=2), RowPlan(256, num_warps=4, loop=True)],
    ids=["block", "cluster", "loop"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_softmax_of_parts_without_numbers(rng, close, plan, dtype):
    """Warps that see only -inf, or only positions after the row; very different levels; rows of -inf, of the lowest
    number, and with one +inf."""
    x = np.full((6, 1100), -np.inf, dtype)
    x[0, 700] = -30000
    x[1, :300] = random(rng, 300, dtype)
    x[3] = np.linspace(-60000, 60000, 1100)
    x[4] = ml_dtypes.finfo(dtype).min
    x[5, 40], x[5, 900] = np.inf, 1
    exact = exactly("softmax").softmax(x)
    assert (exact[0] == (np.arange(1100) == 700)).all() and np.isnan(exact[[2, 5]].astype(np.float32)).all()
    close(lambda: softmax(x, plan=plan), exact, length=1100)


def test_long_layer_norm(rng, close):
    """A row far from zero that is read twice: the sums are of distances from a number near its mean."""
    x, weight, bias = random(rng, (2, 1300), "float16") + np.float16(100), *(random(rng, 1300, "float16") for _ in "wb")
    plan, _, _ = PLANS["loop"]
    close(lambda: norm.layer_norm(x, weight, bias, plan=plan), exactly("norm").layer_norm(x, weight, bias), length=1300)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activation(rng, close, dtype):
    x, bias = random(rng, (3, 130), dtype), random(rng, 130, dtype)
    close(lambda: activation.swiglu(x), exactly("activation").swiglu(x), scale=8)
    for form in ("none", "tanh"):
        exact = exactly("activation").bias_gelu(x, bias, approximate=form)
        close(lambda form=form: activation.bias_gelu(x, bias, approximate=form), exact, scale=8)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(rng, close, interleaved):
    q, k = random(rng, (1, 5, 3, 32), "float16"), random(rng, (1, 5, 1, 32), "float16")
    cos, sin = rope_tables(16, 32)
    exact = exactly("rope").rope(q, k, cos, sin, interleaved=interleaved)
    close(lambda: rope(q, k, cos, sin, interleaved=interleaved), exact, scale=8)


def test_adamw(rng, close):
    parameter, gradient, moment = (random(rng, 1003, dtype) for dtype in ("bfloat16", "bfloat16", "float32"))
    square = np.abs(random(rng, 1003))

    def step():
        state = parameter.copy(), moment.copy(), square.copy()
        optimizer.adamw(state[0], gradient, *state[1:], 3)
        return state

    close(step, exactly("optimizer").adamw(parameter, gradient, moment, square, 3))


def test_reduce(rng, launched, close):
    x = random(rng, 5000)
    close(lambda: reduce.sum_all(x), exactly("reduce").sum_all(x), length=5000, scale=np.abs(x).sum() / 70)
    rows = random(rng, (2, 150), "float16")
    values, places = exactly("reduce").topk(rows, 5)
    for found, at in launched(lambda: reduce.topk(rows, 5)):
        assert (found == values).all() and (at == places).all()


# Rows that are not multiples of 16 bytes: the real driver encodes no tensor maps for them, so nothing may request one.
@pytest.mark.parametrize("shape", [(20, 17, 33), (64, 33, 65)], ids=str)
def test_gemm(rng, close, shape):
    m, n, k = shape
    a, b = random(rng, (m, k), "float16"), random(rng, (k, n), "float16")
    close(lambda: gemm.matmul(a, b), exactly("gemm").matmul(a, b), length=k, scale=np.sqrt(k) * 8)
    close(lambda: gemm.matmul(a, b, splits=2), exactly("gemm").matmul(a, b), length=k, scale=np.sqrt(k) * 8)


# Float32 on CUDA cores; 16 bits on tensor cores, of at most 8 rows, with steps that end within K and beyond it.
@pytest.mark.parametrize("m, n, k", [(1, 8, 512), (3, 6, 700), (8, 20, 1024)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_few_rows(rng, close, m, n, k, dtype):
    x, weights = random(rng, (m, k), dtype), random(rng, (n, k), dtype)
    exact = exactly("gemm").linear(x, weights, epilogue="gelu")
    close(lambda: gemm.linear(x, weights, epilogue="gelu"), exact, length=k, scale=np.sqrt(k) * 8)


def test_attention(rng, close):
    q, k, v = (random(rng, (1, 20, heads, 16), "float16") for heads in (2, 1, 1))
    exact = exactly("attention").attention(q, k, v, causal=True)
    # Weights are rounded to float16 before the second product.
    close(lambda: attention(q, k, v, causal=True), exact, length=20, scale=2.0**12)


@pytest.mark.parametrize("right", [0, 2])
def test_attention_of_windows_and_slopes(rng, close, right):
    q, k, v = (random(rng, (1, 20, heads, 16), "float16") for heads in (2, 1, 1))
    terms = {"window": (6, right), "alibi_slopes": np.asarray([0.5, 0.25], np.float32), "softcap": 4.0}
    terms["sinks"] = np.asarray([0.5, -1.0], np.float32)
    exact = exactly("attention").attention(q, k, v, **terms)
    close(lambda: attention(q, k, v, **terms), exact, length=20, scale=2.0**12)


def test_attention_of_heads_in_one_tile(rng, close):
    from kiln.kernels.attention.configs import AttentionPlan

    q, k, v = random(rng, (1, 5, 8, 16), "float16"), *(random(rng, (1, 40, 2, 16), "float16") for _ in range(2))
    slopes, plan = np.linspace(0.1, 1, 8, dtype=np.float32), AttentionPlan(64, 32, pack=4)
    exact = exactly("attention").attention(q, k, v, causal=True, alibi_slopes=slopes)
    close(
        lambda: attention(q, k, v, causal=True, alibi_slopes=slopes, plan=plan),
        exact,
        length=40,
        scale=2.0**12,
    )


def test_attention_varlen(rng, close):
    q, k, v = (random(rng, (40, heads, 16), "float16") for heads in (2, 1, 1))
    starts = np.asarray([0, 7, 7, 33], np.int32)
    exact = exactly("attention").attention_varlen(q, k, v, starts, starts, causal=True)
    out = np.zeros((40, 2, 16), np.float16)
    close(
        lambda: attention_varlen(q, k, v, starts, starts, 26, 26, causal=True, out=out),
        exact,
        length=26,
        scale=2.0**12,
    )


def test_decode_attention(rng, close):
    q, k, v = random(rng, (1, 2, 16)), random(rng, (1, 40, 1, 16)), random(rng, (1, 40, 1, 16))
    lengths = np.array([37], np.int32)
    exact = exactly("attention").decode_attention(q, k, v, lengths)
    close(lambda: decode_attention(q, k, v, lengths), exact, length=40, scale=8)


@pytest.mark.parametrize("number", PROGRAMS)
def test_random_programs(launched, emulated, number):
    """A program that runs, in both orders."""
    refused = []
    for draw in range(DRAWS):
        try:
            program = generate(f"emulator:{number}" if draw == 0 else f"emulator:{number}:{draw}")
        except Undefined:
            refused.append("the program has no defined result")
            continue
        before = emulated.launches
        for emulated.order in (1, -1):
            failure = check(program, checks=False)
            if failure is not None and not failure.is_fault:
                refused.append(failure.message)
                break
            assert failure is None, f"order {emulated.order}: {failure.message}"
        else:
            assert emulated.launches >= before + 2
            return
    pytest.fail(f"none of {DRAWS} programs ran: {refused}")


@kiln.jit
def _sines(x, out, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    v = kl.load(x + i)
    total = kl.zeros((BLOCK,), kl.float32)
    for turn in kl.static_range(64):
        total += kl.sin(v * (turn - 31))
    kl.store(out + i, total)


def test_a_function_that_is_called(launched):
    """This many sines become one function; half of the arguments take its slow path."""
    x = np.concatenate([np.linspace(-9, 9, 64), np.logspace(4, 30, 64)]).astype(np.float32)

    def launch():
        out = np.zeros(128, np.float32)
        compiled = _sines[(1,)](x, out, 128)
        assert compiled.asm["ptx"].count("call.uni (retval0), kiln_sin,") == 64
        return out

    scaled = [x * np.float32(turn - 31) for turn in range(64)]
    want = sum(np.sin(each.astype(np.float64)) for each in scaled)
    for got in launched(launch):
        assert np.abs(got - want).max() < 2e-5

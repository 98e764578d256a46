"""Matrix products against float64: types, major orders, edge shapes, terms and forms, every pair of them at least once.

Tolerance, for ‖out − exact‖ / ‖exact‖: one rounding of the result is at most its type's u. Sums of K products grow an
error like a random walk, u · √K of the accumulator; what they sum to is of the size of the root of their squares, so
the same holds relative to the norm. Four times that covers the constants. A float16 accumulator is rounded once per
instruction or dot, of 16 elements of K or more. Activations are computed to 1.1e-5 of 16-bit results, else to float32.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
from harness import strided
from kiln.kernels.gemm import linear, matmul, reference
from kiln.kernels.gemm.configs import GemmPlan

TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "int8": np.int8,
         "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int32": 0.0}
SIDES = (1, 7, 16, 63, 65, 130, 777)
ORDERS = ("rows", "columns", "gaps", "steps")
TERMS = {
    "plain": {},
    "alpha": {"alpha": 2.0},
    "alpha, beta": {"alpha": 0.5, "beta": 2.0, "c": True},
    "sum": {"beta": 1.0, "c": True},
    "bias, gelu": {"bias": True, "epilogue": "gelu"},
    "gelu_tanh": {"epilogue": "gelu_tanh", "alpha": 0.5},
    "bias, silu, residual": {"bias": True, "epilogue": "silu", "residual": True},
    "swiglu": {"epilogue": "swiglu"},
    "swiglu, all": {"alpha": 0.5, "row_scale": True, "beta": 3.0, "c": True, "bias": True, "epilogue": "swiglu",
                    "residual": True},
    "row scale": {"row_scale": True},
}  # fmt: skip
# Forms planned only for GPUs, here on the CPU: described blocks, tiles that are not powers of two, splits.
FORMS = {
    "own": None,
    "described": GemmPlan(64, 48, 64),
    "wide": GemmPlan(16, 112, 32, group=2),
    "few rows": GemmPlan(24, 64, 64),
    "split": GemmPlan(32, 32, 32, splits=3),
    "split, few rows": GemmPlan(16, 64, 32, splits=2, sum_n=64),
    "addressed": GemmPlan(32, 64, 32, described=False),
    "shares": GemmPlan(32, 48, 32, workers=7),
    "shares, few rows": GemmPlan(16, 32, 64, workers=100, waves=1),
    "split, last adds": GemmPlan(32, 32, 32, splits=3, reduce="last"),
    "skewed": GemmPlan(32, 48, 32, splits=2, skew=1),
    "skewed, few rows": GemmPlan(16, 32, 64, skew=3),
}


def pairs(**factors):
    """Rows in which every two values of two factors occur together: each row is the one, of a few dozen candidates,
    with the most new pairs. The candidates are seeded: the same rows every time."""
    names = list(factors)
    open_pairs = {(i, x, j, y) for i, j in itertools.combinations(range(len(names)), 2)
                  for x in factors[names[i]] for y in factors[names[j]]}  # fmt: skip
    rng = np.random.default_rng(0)
    while open_pairs:
        i, x, j, y = min(open_pairs, key=str)
        best, most = None, -1
        for _ in range(40):
            row = [values[rng.integers(len(values))] for values in map(list, factors.values())]
            row[i], row[j] = x, y
            found = sum((a, row[a], b, row[b]) in open_pairs for a, b in itertools.combinations(range(len(names)), 2))
            if found > most:
                best, most = row, found
        open_pairs -= {(a, best[a], b, best[b]) for a, b in itertools.combinations(range(len(names)), 2)}
        yield tuple(best)


def filled(rng, shape, dtype):
    """Normal numbers, small integers for int8."""
    if dtype == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return np.asarray(rng.standard_normal(shape, dtype=np.float32)).astype(TYPES[dtype])


def ordered(array, order):
    """The same values, contiguous along rows or columns, with gaps between rows, or with gaps everywhere."""
    if order == "rows":
        return array
    if order == "columns":
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    return strided(array) if order == "gaps" else np.repeat(array, 2, axis=-1)[..., ::2]


def terms_of(rng, name, shape, dtype):
    """The terms of a name, with True replaced by arrays."""
    *lead, m, n = shape
    given = dict(TERMS[name])
    width = n // 2 if given.get("epilogue") == "swiglu" else n
    for term, size in (("c", (*lead, m, n)), ("bias", (n,)), ("row_scale", (m,)), ("residual", (*lead, m, width))):
        if given.get(term):
            given[term] = filled(rng, size, dtype)
    return given


def check(out, exact, k, accumulator="f32"):
    assert out.shape == exact.shape
    values, size = np.asarray(out).astype(np.float64), np.linalg.norm(exact)
    rounding = ROUNDOFF[str(out.dtype)]
    if accumulator == "f16":
        rounding += 4 * np.sqrt(max(1, k / 16)) * 2.0**-11
    if str(out.dtype) != "int32":
        rounding += 4 * np.sqrt(max(1, k)) * 2.0**-24 + (1.1e-5 if out.itemsize == 2 else 0)
    error = np.linalg.norm(values - exact)
    assert error <= rounding * size, f"error {error / (size or 1):.3g} of the norm, allowed {rounding:.3g}"


def run(rng, dtype, shape, orders, terms, plan=None, accumulator="f32", lead=()):
    m, n, k = shape
    n += n % 2 if "swiglu" in terms else 0
    a, b = ordered(filled(rng, (*lead, m, k), dtype), orders[0]), ordered(filled(rng, (*lead, k, n), dtype), orders[1])
    wide = "float32" if dtype not in ("float16", "bfloat16") else dtype
    given = terms_of(rng, terms, (*lead, m, n), wide)
    out_dtype = "float32" if dtype == "int8" and given else None
    out = matmul(a, b, **given, out_dtype=out_dtype, plan=plan, accumulator=accumulator)
    check(out, reference.matmul(a, b, **given), k, accumulator)


@pytest.mark.parametrize(
    "dtype, a_order, b_order, m, n, k, terms",
    pairs(dtype=TYPES, a=ORDERS, b=ORDERS, m=SIDES, n=SIDES, k=SIDES, terms=TERMS),
)
def test_matmul(rng, dtype, a_order, b_order, m, n, k, terms):
    run(rng, dtype, (m, n, k), (a_order, b_order), terms)


@pytest.mark.host
@pytest.mark.parametrize(
    "form, dtype, a_order, b_order, m, n, k, terms",
    pairs(form=FORMS, dtype=TYPES, a=ORDERS, b=ORDERS, m=SIDES[:-1], n=SIDES[:-1], k=SIDES, terms=TERMS),
)
def test_forms(rng, form, dtype, a_order, b_order, m, n, k, terms):
    run(rng, dtype, (m, n, k), (a_order, b_order), terms, FORMS[form])


@pytest.mark.host
@pytest.mark.parametrize("columns, step", [(4, 1024), (2, 256), (6, 128)])
@pytest.mark.parametrize(
    "dtype, m, n, k, terms",
    pairs(dtype=list(TYPES)[:3], m=(1, 2, 3, 4), n=(1, 16, 65, 130), k=(1, 63, 256, 777), terms=TERMS),
)
def test_streamed_weights(rng, dtype, m, n, k, terms, columns, step):
    even = n % columns == 0 and k % step == 0
    plan = GemmPlan(m, columns, step, "gemv", even=even, described=False)
    run(rng, dtype, (m, n, k), ("rows", "columns"), terms, plan)


# Rows, columns, pieces of a step, and warps.
DIRECT = ((8, 8, 1, 2), (2, 4, 2, 1), (4, 2, 1, 4), (16, 8, 2, 2))


@pytest.mark.host
@pytest.mark.parametrize(
    "plan, dtype, m, n, k, terms",
    pairs(plan=DIRECT, dtype=list(TYPES), m=(1, 2, 3, 8), n=(1, 16, 65, 130), k=(1, 63, 256, 777, 2048), terms=TERMS),
)
def test_weights_read_by_their_threads(rng, plan, dtype, m, n, k, terms):
    """Both operands in registers, two steps of them, in parts of K side by side."""
    rows, columns, pieces, warps = plan
    fold = 16 // rows
    step = pieces * warps * fold * 64 // np.dtype(TYPES[dtype]).itemsize
    columns_of_b = n + n % 2 if "swiglu" in terms else n
    even = columns_of_b % columns == 0 and k % (2 * step) == 0
    made = GemmPlan(rows, columns, step, "direct", num_warps=warps, fold=fold, even=even, described=False)
    run(rng, dtype, (min(m, rows), n, k), ("rows", "columns"), terms, made)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0), (1, 2, 0), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("terms", ["plain", "alpha, beta", "swiglu, all"])
def test_nothing_to_sum(rng, dtype, shape, terms):
    run(rng, dtype, shape, ("rows", "rows"), terms)


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(16, 16, 16), (65, 63, 777), (1, 130, 2000)], ids=str)
@pytest.mark.parametrize("terms", ["plain", "alpha, beta"])
def test_float16_accumulator(rng, dtype, shape, terms):
    run(rng, dtype, shape, ("rows", "columns"), terms, accumulator="f16")


def test_fp8_of_both_kinds(rng):
    a, b = filled(rng, (65, 130), "float8_e4m3fn"), filled(rng, (130, 63), "float8_e5m2")
    out = matmul(a, b)
    assert str(out.dtype) == "bfloat16"
    check(out, reference.matmul(a, b), 130)


@pytest.mark.parametrize("kinds", list(itertools.product(("float8_e4m3fn", "float8_e5m2"), repeat=2)), ids=str)
@pytest.mark.parametrize("shape", [(1, 16, 16), (16, 130, 784), (130, 63, 1024), (7, 777, 160), (65, 65, 130)], ids=str)
@pytest.mark.parametrize("accumulator", ["f32", "fast"])
def test_fp8_contiguous_along_k(rng, kinds, shape, accumulator):
    """As tensor cores read it: they truncate addends 13 bits below the largest, which is less than the rounding to
    bfloat16."""
    m, n, k = shape
    a, b = filled(rng, (m, k), kinds[0]), ordered(filled(rng, (k, n), kinds[1]), "columns")
    c = filled(rng, (m, n), "bfloat16")
    out = matmul(a, b, beta=2.0, c=c, accumulator=accumulator)
    check(out, reference.matmul(a, b, beta=2.0, c=c), k)


def test_int8_is_exact(rng):
    a, b = filled(rng, (65, 777), "int8"), filled(rng, (777, 63), "int8")
    for splits in (None, 3):
        out = matmul(a, b, splits=splits)
        assert out.dtype == np.int32 and (out == a.astype(np.int64) @ b.astype(np.int64)).all()


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_precision_of_float32(rng, precision):
    a, b = filled(rng, (65, 130), "float32"), filled(rng, (130, 63), "float32")
    exact = reference.matmul(a, b)
    for right in (b, ordered(b, "columns")):
        error = np.linalg.norm(matmul(a, right, precision=precision) - exact) / np.linalg.norm(exact)
        # tf32 has 10 fraction bits; three products of such halves leave about 21.
        assert error <= (2.0**-10 if precision == "tf32" else 2.0**-20)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("b_batched", [True, False])
@pytest.mark.parametrize("plan", ["own", "described", "split", "few rows", "shares", "split, last adds"])
@pytest.mark.parametrize("terms", ["plain", "swiglu, all"])
@pytest.mark.host
def test_batches(rng, dtype, b_batched, plan, terms):
    m, n, k = 33, 70, 100
    a = filled(rng, (3, m, k), dtype)
    b = filled(rng, (3, k, n) if b_batched else (k, n), dtype)
    given = terms_of(rng, terms, (3, m, n), "float16" if dtype == "float16" else "float32")
    out = matmul(a, ordered(b, "columns"), plan=FORMS[plan], out_dtype="float32" if given else None, **given)
    check(out, reference.matmul(a, b, **given), k)
    out = matmul(a.swapaxes(1, 2).copy().swapaxes(1, 2), b, plan=FORMS[plan])
    check(out, reference.matmul(a, b), k)


def test_one_a_for_all_batches(rng):
    a, b = filled(rng, (33, 70), "float32"), filled(rng, (4, 70, 20), "float32")
    check(matmul(a, b), reference.matmul(a, b), 70)
    check(matmul(np.broadcast_to(a, (4, 33, 70)), b), reference.matmul(a, b), 70)


@pytest.mark.parametrize("splits", [None, 1, 3, 8])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 65, 300), (16, 128, 1000), (4, 4, 0)], ids=str)
def test_splits_give_the_same_bits_every_time(rng, shape, dtype, splits):
    m, n, k = shape
    a, b = filled(rng, (m, k), dtype), filled(rng, (k, n), dtype)
    out = matmul(a, b, splits=splits)
    check(out, reference.matmul(a, b), k)
    assert (matmul(a, b, splits=splits) == out).all()


def test_the_older_name_of_splits(rng):
    import kiln.kernels.gemm as gemm

    a, b = filled(rng, (7, 300), "float32"), filled(rng, (300, 65), "float32")
    with pytest.warns(DeprecationWarning, match="use matmul"):
        assert (gemm.matmul_split_k(a, b, 3) == matmul(a, b, splits=3)).all()


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("shape", [(3, 5, 40), (2, 3, 8), (6, 40), (1, 16), (4, 1, 130)], ids=str)
def test_linear(rng, shape, terms):
    x, w = filled(rng, shape, "float16"), filled(rng, (24, shape[-1]), "float16")
    lead, rows = shape[:-1], int(np.prod(shape[:-1]))
    given = terms_of(rng, terms, (rows, 24), "float16")
    shaped = {key: value.reshape(*lead, -1) if key in ("c", "residual") else value for key, value in given.items()}
    out = linear(x, w, **shaped)
    exact = reference.linear(x.reshape(rows, -1), w, **given)
    check(out.reshape(rows, -1), exact, shape[-1])
    assert out.shape == (*lead, exact.shape[1])


def test_outputs_passed_in(rng):
    a, b = filled(rng, (70, 50), "float32"), filled(rng, (50, 90), "float32")
    exact = reference.matmul(a, b)
    for order in ORDERS:
        out = ordered(np.zeros((70, 90), np.float32), order)
        assert matmul(a, b, out=out) is out
        check(out, exact, 50)
    total = np.ones((70, 90), np.float32)
    matmul(a, b, beta=2.0, c=total, out=total)
    check(total, exact + 2, 50)


def test_beta_of_zero_does_not_read_c(rng):
    a, b = filled(rng, (20, 30), "float32"), filled(rng, (30, 10), "float32")
    check(matmul(a, b, c=np.full((20, 10), np.nan, np.float32)), reference.matmul(a, b), 30)


def test_operands_of_stride_zero_and_reversed(rng):
    a, b = filled(rng, (20, 30), "float32"), filled(rng, (30, 10), "float32")
    same = np.broadcast_to(a[:1], (20, 30))
    check(matmul(same, b), reference.matmul(same, b), 30)
    check(matmul(a[::-1], b), reference.matmul(a[::-1], b), 30)
    check(matmul(a[:, ::-1], b[::-1]), reference.matmul(a[:, ::-1], b[::-1]), 30)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda a: matmul(a, a[:2]), r"b: expected shape \(5, n\)"),
        (
            lambda a: matmul(a, a.T.astype(np.float16)),
            r"b: expected type float32 \(because a is float32\)",
        ),
        (
            lambda a: matmul(a[None, None], a.T),
            r"a: expected shape \(m, k\) or \(batch, m, k\) \(because",
        ),
        (lambda a: matmul(np.stack([a, a]), np.stack([a.T] * 3)), r"b: expected 2 batches"),
        (lambda a: matmul(a, a.T, beta=1.0), r"c: expected a matrix \(because beta is 1.0\)"),
        (lambda a: matmul(a, a.T, bias=a[0]), r"bias: expected shape \(3,\)"),
        (lambda a: matmul(a, a.T, row_scale=a[0]), r"row_scale: expected shape \(3,\)"),
        (lambda a: matmul(a, a.T, residual=a), r"residual: expected shape \(…, 3, 3\)"),
        (lambda a: matmul(a, a.T, epilogue="relu"), r"epilogue: expected one of None, gelu"),
        (lambda a: matmul(a, a.T, epilogue="swiglu"), r"expected an even number of columns"),
        (lambda a: matmul(a, a.T, accumulator="f16"), r"accumulator: expected f32 \(because"),
        (lambda a: matmul(a, a.T, accumulator="bf16"), r"accumulator: expected one of f16, f32"),
        (lambda a: matmul(a, a.T, accumulator="fast"), r"accumulator: expected f32 \(because fast is for fp8\)"),
        (lambda a: matmul(a, a.T, precision="fp8"), r"precision: expected one of ieee"),
        (lambda a: matmul(a, a.T, splits=0), r"splits: expected at least 1, got 0"),
        (lambda a: matmul(a, a.T, out=np.zeros((3, 4), np.float32)), r"out: expected shape \(3, 3\)"),
        (
            lambda a: matmul(a, a.T, out_dtype="int32"),
            r"out_dtype: expected float16.* \(because a is float32\)",
        ),
        (lambda a: matmul(a.astype(np.int8), a.T.astype(np.int8), alpha=2.0), r"out: expected a floating-point type"),
        (
            lambda a: matmul(a.astype(np.float64), a.T.astype(np.float64)),
            r"a: expected type float16.*, got float64",
        ),
        (lambda a: linear(a, a.T), r"w: expected shape \(n, 5\)"),
    ],
)
def test_errors(rng, call, message):
    with pytest.raises(ValueError, match=message):
        call(filled(rng, (3, 5), "float32"))

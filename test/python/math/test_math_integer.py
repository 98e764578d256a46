"""Integer operations without an instruction: wide products, rounding divisions, powers, bit counts."""

from __future__ import annotations

import numpy as np
import pytest
from math_harness import DTYPES, Function, host_targets
from math_samples import integers

INTEGERS = ("i8", "i16", "i32", "i64")
DIVISIONS = ("ceildivsi", "floordivsi", "ceildivui")
COUNTS = ("ctpop", "ctlz", "cttz", "absi")

FUNCTIONS = [
    function
    for i in INTEGERS
    for function in (
        *(
            Function(f"{op}_{i}", (i, i), (i, i), f"%r0, %r1 = arith.{op}_extended %a0, %a1 : VEC({i})")
            for op in ("mulsi", "mului")
        ),
        *(Function(f"{op}_{i}", (i, i), (i,), f"%r = arith.{op} %a0, %a1 : VEC({i})") for op in DIVISIONS),
        *(Function(f"{op}_{i}", (i,), (i,), f"%r = math.{op} %a0 : VEC({i})") for op in COUNTS),
        Function(f"ipowi_{i}", (i, i), (i,), f"%r = math.ipowi %a0, %a1 : VEC({i})"),
    )
]


@pytest.fixture(params=[(t, s) for t in host_targets() for s in ("16", "")], ids=lambda p: f"{p[0]}-{p[1] or 'scalar'}")
def library(compiled, request):
    target, shape = request.param
    return compiled("integer", FUNCTIONS, target, shape)


def wrapped(values: list[int], i: str) -> np.ndarray:
    width = DTYPES[i].itemsize * 8
    return np.array([v & (2**width - 1) for v in values], f"u{width // 8}").view(DTYPES[i])


def unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.dtype.itemsize}")


def pairs(i: str) -> tuple[np.ndarray, np.ndarray]:
    x = integers(i, 5000)
    rng = np.random.default_rng(9)
    return rng.choice(x, 6000), rng.choice(x, 6000)


@pytest.mark.parametrize("i", INTEGERS)
def test_wide_products(library, i):
    a, b = pairs(i)
    width = a.dtype.itemsize * 8
    for op, x, y in (("mulsi", a, b), ("mului", unsigned(a), unsigned(b))):
        low, high = library(f"{op}_{i}", a, b)
        products = [p * q for p, q in zip(x.tolist(), y.tolist(), strict=True)]
        np.testing.assert_array_equal(low, wrapped(products, i))
        np.testing.assert_array_equal(high, wrapped([p >> width for p in products], i))


@pytest.mark.parametrize("i", INTEGERS)
def test_rounding_divisions(library, i):
    a, b = pairs(i)
    usable = (b != 0) & ~((b == -1) & (a == np.iinfo(a.dtype).min))
    a, b = a[usable], b[usable]
    signed = list(zip(a.tolist(), b.tolist(), strict=True))
    plain = list(zip(unsigned(a).tolist(), unsigned(b).tolist(), strict=True))
    np.testing.assert_array_equal(library(f"floordivsi_{i}", a, b), wrapped([p // q for p, q in signed], i))
    np.testing.assert_array_equal(library(f"ceildivsi_{i}", a, b), wrapped([-(-p // q) for p, q in signed], i))
    np.testing.assert_array_equal(library(f"ceildivui_{i}", a, b), wrapped([-(-p // q) for p, q in plain], i))


@pytest.mark.parametrize("i", INTEGERS)
def test_counts_and_magnitude(library, i):
    x = integers(i, 5000)
    width = x.dtype.itemsize * 8
    values = unsigned(x).tolist()
    expected = {
        "ctpop": [v.bit_count() for v in values],
        "ctlz": [width - v.bit_length() for v in values],
        "cttz": [(v & -v).bit_length() - 1 if v else width for v in values],
        "absi": [abs(v) for v in x.tolist()],
    }
    for op, value in expected.items():
        np.testing.assert_array_equal(library(f"{op}_{i}", x), wrapped(value, i), op)


@pytest.mark.parametrize("i", INTEGERS)
def test_powers_wrap_and_negative_exponents_give_zero(library, i):
    rng = np.random.default_rng(10)
    x, n = rng.integers(-12, 13, 4000).astype(DTYPES[i]), rng.integers(-5, 70, 4000).astype(DTYPES[i])

    def power(base: int, exponent: int) -> int:
        if exponent >= 0:
            return base**exponent
        return {1: 1, -1: 1 - 2 * (exponent % 2)}.get(base, 0)

    expected = wrapped([power(*k) for k in zip(x.tolist(), n.tolist(), strict=True)], i)
    np.testing.assert_array_equal(library(f"ipowi_{i}", x, n), expected)

"""fp8e4b15, a storage format: every code and every fp16 against a table computed with numpy."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors

pytestmark = pytest.mark.cpu

CODES = np.arange(256)


def table():
    """The values of the 256 codes: sign, four bits of exponent with bias 15, three of mantissa, none reserved."""
    exponent, mantissa = CODES >> 3 & 15, CODES & 7
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-14, (1 + mantissa / 8) * 2.0 ** (exponent - 15.0))
    return np.where(CODES & 128, -size, size)


def nearest(numbers):
    """The codes nearest to numbers, 0x7e (1.75) being the greatest; ties go to the greater. NaN and infinity give
    1.75."""
    sizes = table()[:0x7F]
    number = np.fmin(np.abs(numbers.astype(np.float64)), 2)  # of NaN and 2, too
    above = np.searchsorted(sizes, number).clip(1, 0x7E)
    up = sizes[above] - number <= number - sizes[above - 1]
    code = np.where(np.isfinite(number), np.where(up, above, above - 1), 0x7E)
    return (code | np.where(np.signbit(numbers), 0x80, 0)).astype(np.uint8)


@kiln.jit
def widen(x, y, B: kl.constexpr):
    i = kl.program_id(0) * B + kl.arange(0, B)
    kl.store(y + i, kl.load(x + i).to(kl.float8e4b15, bitcast=True).to(y.dtype.element_ty))


@kiln.jit
def narrow(x, y, B: kl.constexpr):
    i = kl.program_id(0) * B + kl.arange(0, B)
    kl.store(y + i, kl.load(x + i).to(kl.float8e4b15).to(kl.uint8, bitcast=True))


@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64])
def test_every_code_has_its_number(type):
    y = np.empty(256, type)
    widen[(1,)](CODES.astype(np.uint8), y, B=256)
    np.testing.assert_array_equal(y, table().astype(type))
    assert (np.signbit(y) == (CODES >= 128)).all()


def test_every_half_has_its_code():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    y = np.empty(1 << 16, np.uint8)
    narrow[(64,)](x, y, B=1024)
    np.testing.assert_array_equal(y, nearest(x))


@pytest.mark.parametrize("type", [np.float32, np.float64])
def test_wide_floats_round_once(type):
    numbers = table()[:0x7F]
    ties = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate([numbers, ties, np.nextafter(ties.astype(type), 0), np.nextafter(ties.astype(type), 9)])
    x = np.concatenate([x, -x, [np.inf, -np.inf, np.nan, 1e30, 1e-30, -1e-30]]).astype(type)
    x = np.pad(x, (0, 2048 - len(x)))
    y = np.empty(2048, np.uint8)
    narrow[(2,)](x, y, B=1024)
    np.testing.assert_array_equal(y, nearest(x))


def test_integers_become_it_through_floats():
    x, y = np.arange(-8, 8, dtype=np.int32), np.empty(16, np.uint8)
    narrow[(1,)](x, y, B=16)
    np.testing.assert_array_equal(y, nearest(x.astype(np.float32)))


NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.3, 1.71875, 1.9, -5.0, 2.0**-17, 2.0**-18, 1e-9, float("inf"))


@kiln.jit
def constants(y, NUMBERS: kl.constexpr):
    for j in kl.static_range(12):
        kl.store(y + j, kl.full((), NUMBERS[j], kl.float8e4b15).to(kl.uint8, bitcast=True))


def test_a_constant_folds_as_it_converts():
    y = np.empty(12, np.uint8)
    constants[(1,)](y, NUMBERS=NUMBERS)
    np.testing.assert_array_equal(y, nearest(np.array(NUMBERS)))


@kiln.jit
def show(x):
    kl.device_print("x", kl.load(x + kl.arange(0, 2)).to(kl.float8e4b15, bitcast=True))


def test_its_numbers_are_printed(capfd):
    show[(1,)](np.array([0x78, 0x81], np.uint8))
    printed = capfd.readouterr().out
    assert "1.0" in printed and "-7.6" in printed


@kiln.jit
def calculate(x, y, HOW: kl.constexpr):
    v = kl.load(x + kl.arange(0, 16)).to(kl.float8e4b15, bitcast=True)
    if HOW == "add":
        v = v + v
    elif HOW == "scale":
        v = v * 2.0
    elif HOW == "negate":
        v = -v
    elif HOW == "abs":
        v = kl.abs(v)
    elif HOW == "compare":
        v = v > 0
    elif HOW == "max":
        v = kl.max(v)
    elif HOW == "topk":
        v = kl.topk(v, 16)
    elif HOW == "sort":
        v = kl.sort(v)
    elif HOW == "dot":
        v = kl.dot(kl.reshape(v, (4, 4)), kl.reshape(v, (4, 4)))
    kl.store(y + kl.arange(0, 16), v.to(kl.float32))


@pytest.mark.parametrize("how", ["add", "scale", "negate", "abs", "compare", "topk", "max", "sort", "dot"])
def test_arithmetic_on_it_is_rejected(how):
    with pytest.raises(errors.CompilationError, match=r"fp8e4b15 is a format to keep numbers in"):
        calculate[(1,)](np.zeros(16, np.uint8), np.zeros(16, np.float32), HOW=how)


@kiln.jit
def rounded(x):
    kl.store(x, kl.load(x).to(kl.float8e4b15, fp_downcast_rounding="rtz").to(kl.float32))


def test_its_rounding_is_not_chosen():
    with pytest.raises(errors.CompilationError, match="expected no fp_downcast_rounding to fp8e4b15"):
        rounded[(1,)](np.zeros(1, np.float32))

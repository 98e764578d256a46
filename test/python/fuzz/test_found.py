"""Bugs that random programs found, each as the smallest program that failed."""

from __future__ import annotations

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest


@kiln.jit
def branch_over_repeated_rows(x_ptr, condition_ptr, out_ptr):
    rows, columns = kl.arange(0, 16)[:, None], kl.arange(0, 8)[None, :]
    result = kl.load(x_ptr + rows * 0 + columns)
    if kl.load(condition_ptr):
        result = result - 1
    kl.store(out_ptr + rows * 8 + columns, result)


@pytest.mark.parametrize("taken", [False, True])
def test_a_branch_that_changes_a_tile_of_equal_rows_changes_each_row_once(taken):
    x, out = np.arange(8, dtype=np.int64), np.zeros((16, 8), np.int64)
    branch_over_repeated_rows[1](x, np.array([taken]), out)
    np.testing.assert_array_equal(out, np.tile(x - taken, (16, 1)))


@kiln.jit
def turned_pairs(x_ptr, out_ptr):
    pairs = kl.load(x_ptr + kl.arange(0, 48)).reshape(24, 2)
    kl.store(out_ptr + kl.arange(0, 2)[:, None] * 24 + kl.arange(0, 24)[None, :], pairs.T.to(kl.int32))


def test_pairs_are_transposed():
    x, out = np.arange(48) % 3 == 0, np.zeros((2, 24), np.int32)
    turned_pairs[1](x, out)
    np.testing.assert_array_equal(out, x.reshape(24, 2).T)


@kiln.jit
def same_first_value(a, limit, x):
    if limit > 0:
        return a, x
    return a, ~x


@kiln.jit
def returns_share_a_value(x_ptr, out_ptr, n):
    i = kl.arange(0, 8)
    a, b = same_first_value(i, n, kl.load(x_ptr + i))
    kl.store(out_ptr + i, a + b)


@pytest.mark.parametrize("n", [-3, 3])
def test_branches_may_return_the_same_value(n):
    x, out = np.arange(8, dtype=np.int32) * 3, np.zeros(8, np.int32)
    returns_share_a_value[1](x, out, n)
    np.testing.assert_array_equal(out, np.arange(8) + (x if n > 0 else ~x))


@kiln.jit
def store_first(x_ptr, out_ptr, COUNT: kl.constexpr, SIDE: kl.constexpr):
    i = kl.arange(0, SIDE)
    x = kl.load(x_ptr + i)
    kl.store(out_ptr + i, x + x, mask=i < COUNT)


@pytest.mark.parametrize("side", [4, 8, 16])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_mask_of_few_lanes_protects_the_others_in_fp8(side, count):
    kind = ml_dtypes.float8_e5m2
    x, out = np.arange(1, side + 1).astype(kind), np.full(side, 3, kind)
    store_first[1](x, out, count, side)
    expected = np.full(side, 3, kind)
    expected[:count] = (x + x)[:count]
    np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))


@kiln.jit
def twice(x):
    return x + x


@kiln.jit
def calls_in_a_loop_that_never_runs(x_ptr, out_ptr):
    i = kl.arange(0, 8)
    x = kl.load(x_ptr + i)
    for _ in range(0, 0):
        x = twice(x)
    kl.store(out_ptr + i, x)


def test_a_function_called_only_in_a_loop_that_never_runs_is_dropped():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    calls_in_a_loop_that_never_runs[1](x, out)
    np.testing.assert_array_equal(out, x)


@kiln.jit
def negate_and_widen(x_ptr, out_ptr):
    i = kl.arange(0, 8)
    kl.store(out_ptr + i, (-kl.load(x_ptr + i)).to(kl.int32))


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_the_smallest_integer_negated_is_itself_even_when_widened(kind):
    least = np.iinfo(kind).min
    x, out = np.array([least, least + 1, -1, 0, 1, 2, 3, 4], kind), np.zeros(8, np.int32)
    negate_and_widen[1](x, out)
    np.testing.assert_array_equal(out, [least, -least - 1, 1, 0, -1, -2, -3, -4])


@kiln.jit
def largest_negated(x_ptr, out_ptr):
    value, index = kl.max(-kl.load(x_ptr + kl.arange(0, 15)), 0, return_indices=True)
    kl.store(out_ptr, value)
    kl.store(out_ptr + 1, index)


def test_the_largest_of_negated_numbers():
    x, out = np.arange(15, dtype=np.int32) * 7 % 15 - 4, np.zeros(2, np.int32)
    largest_negated[1](x, out)
    assert out.tolist() == [(-x).max(), (-x).argmax()]


@kiln.jit
def other_half_is_zero(x_ptr, out_ptr, OTHER: kl.constexpr):
    i = kl.arange(0, 8)
    x = kl.load(x_ptr + i)
    kl.store(out_ptr + i, (x * x).to(OTHER, bitcast=True) != 0.0)


@pytest.mark.parametrize("kind, other", [(np.float16, kl.bfloat16), (ml_dtypes.bfloat16, kl.float16)])
def test_a_half_reinterpreted_as_bf16_compares_with_zero(kind, other):
    x, out = np.array([0, -0.0, 1, -1, 2, np.nan, np.inf, 0.5], kind), np.zeros(8, np.bool_)
    other_half_is_zero[1](x, out, OTHER=other)
    np.testing.assert_array_equal(out, x != 0)


@kiln.jit
def largest_of_pairs_across(x_ptr, out_ptr):
    across = kl.trans(kl.reshape(kl.load(x_ptr + kl.arange(0, 80)), (40, 2)))
    value, index = kl.max(kl.join(across, across), None, return_indices=True)
    kl.store(out_ptr, value)
    kl.store(out_ptr + 1, index)


def test_pairs_whose_loop_is_outside():
    """The loop over the pair may be outside the loop over the row."""
    x, out = np.arange(80, dtype=np.int32) * 37 % 80, np.zeros(2, np.int32)
    largest_of_pairs_across[1](x, out)
    joined = np.repeat(x.reshape(40, 2).T.reshape(-1), 2)
    assert out.tolist() == [joined.max(), joined.argmax()]


@kiln.jit
def smallest_beside_a_product(first_ptr, row_ptr, column_ptr, out_ptr):
    program = kl.program_id(0)
    first = kl.load(first_ptr + program)
    never = kl.arange(0, 3)[None, :] < 0
    hidden = kl.load(first_ptr + kl.arange(0, 28)[:, None] * 3 + kl.arange(0, 3)[None, :], mask=never, other=first)
    rows = kl.load(row_ptr + (program * 12 + kl.arange(0, 4)[:, None] * 3 + kl.arange(0, 3)[None, :]))
    other = kl.min(kl.join(hidden, hidden), None)
    place = kl.arange(0, 3)[:, None] * 16 + kl.arange(0, 24)[None, :] * 8
    columns = kl.load(column_ptr + place, mask=kl.arange(0, 24)[None, :] < 13, other=other)
    product = kl.dot(rows, columns, input_precision="bf16x3")
    kl.store(out_ptr + (program * 99 + kl.arange(0, 4)[:, None] * 24 + kl.arange(0, 24)[None, :]), product)


def test_a_bf16_that_is_repeated_needs_no_function():
    """LLVM put it into a vector by way of float32, and called a function to get back."""
    rng = np.random.default_rng(0)
    rows, columns = rng.standard_normal((4, 3), np.float32), rng.standard_normal(400, np.float32)
    out = np.zeros((4, 24), np.float32)
    smallest_beside_a_product[1](np.full(1, 1.5, ml_dtypes.bfloat16), rows, columns, out, enable_fp_fusion=False)
    read = columns[np.arange(3)[:, None] * 16 + np.arange(24) * 8]
    read[:, 13:] = 1.5
    np.testing.assert_allclose(out, rows @ read, rtol=1e-4, atol=1e-4)

"""Promises about sizes drop masks, and only those that they make true."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs


@kiln.jit
def scale_rows(x, out, n, PROMISE: kl.constexpr):
    row = kl.program_id(0)
    if PROMISE == "multiple":
        kl.assume(n % 64 == 0)
    for start in range(0, n, 64):
        column = start + kl.arange(0, 64)
        value = kl.load(x + row * n + column, mask=column < n, other=0.0)
        kl.store(out + row * n + column, value * 2.0, mask=column < n)


@kiln.jit
def scale_block(x, out, n, PROMISE: kl.constexpr):
    start = kl.program_id(0) * 64
    if PROMISE == "inside":
        kl.assume((n >= 64) & (start <= n - 64))
    if PROMISE == "one less":
        kl.assume((n >= 64) & (start <= n - 63))
    place = start + kl.arange(0, 64)
    kl.store(out + place, kl.load(x + place, mask=place < n, other=0.0) * 2.0, mask=place < n)


def predicated(kernel, promise: str) -> int:
    """The number of accesses to memory that depend on a mask, in code for a GPU: each thread has one element."""
    with knobs.scope(target="sm_90a", ptxas="none"):
        compiled = kiln.jit(kernel.fn).warmup(kl.float32, kl.float32, 101, PROMISE=promise, grid=(1,), num_warps=2)
    return len(re.findall(r"@!?%p\d+ (?:ld|st)\.global", compiled.asm["ptx"]))


@pytest.mark.parametrize(
    "kernel, promise, keeps",
    [
        (scale_rows, "multiple", False),
        (scale_rows, "", True),
        (scale_block, "inside", False),
        (scale_block, "one less", True),
        (scale_block, "", True),
    ],
)
def test_masks_that_promises_make_true_are_dropped(kernel, promise, keeps):
    assert (predicated(kernel, promise) > 0) == keeps


@pytest.mark.parametrize("kernel, promise, grid", [(scale_rows, "multiple", 3), (scale_block, "inside", 9)])
def test_results_are_the_same(kernel, promise, grid):
    x = np.arange(3 * 192, dtype=np.float32)
    for said in (promise, ""):
        out = np.full_like(x, -1)
        kernel[(grid,)](x, out, 192 if kernel is scale_rows else x.size, PROMISE=said)
        np.testing.assert_array_equal(out, x * 2)


def test_a_mask_that_may_be_false_stays():
    """The promise holds for the first block, and not for the last."""
    x = np.arange(100, dtype=np.float32)
    out = np.full(128, -1, np.float32)
    scale_block[(2,)](x, out, 100, PROMISE="")
    np.testing.assert_array_equal(out, np.concatenate([x * 2, np.full(28, -1)]))

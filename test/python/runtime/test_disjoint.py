"""Overlapping arrays: a program reads its tile before it writes, whatever the storages; faster code is used only where
arrays provably do not overlap."""

import kiln
import kiln.language as kl
import numpy as np
import pytest


@kiln.jit
def shift_kernel(x, y, n, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    kl.store(y + at, kl.load(x + at, mask=at < n) + 1.0, mask=at < n)


@kiln.jit
def two_stores_kernel(x, y, z, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    value = kl.load(x + at)
    kl.store(y + at, value)
    kl.store(z + at, value + 1.0)


def marks(compiled):
    return compiled.asm["tile"].count("tile.disjoint")


@pytest.mark.parametrize("by", [0, 1, 5, 16, 17, 64])
@pytest.mark.parametrize("back", [False, True])
def test_overlapping_views(by, back):
    data = np.arange(400, dtype=np.float32)
    low, high = data[:300], data[by : by + 300]
    x, y = (high, low) if back else (low, high)
    want = data.copy()
    (want[:300] if back else want[by : by + 300])[...] = x + 1
    compiled = shift_kernel[(1,)](x, y, 300, BLOCK=512)
    assert (data == want).all() and marks(compiled) == 0


def test_two_stores_to_one_place():
    """The later store wins everywhere, even where the two overlap with an offset."""
    data, x = np.zeros(200, np.float32), np.arange(128, dtype=np.float32)
    compiled = two_stores_kernel[(1,)](x, data[:128], data[32:160], BLOCK=128)
    want = np.zeros(200, np.float32)
    want[:128] = x
    want[32:160] = x + 1
    assert (data == want).all() and marks(compiled) == 1


def test_separate_arrays_are_marked():
    x, y = np.arange(300, dtype=np.float32), np.empty(300, np.float32)
    compiled = shift_kernel[(1,)](x, y, 300, BLOCK=512)
    assert (y == x + 1).all() and marks(compiled) == 2


def test_two_inputs_may_share_storage():
    """Only the output is separate: that is enough to read and write in one pass."""
    both, out = np.arange(256, dtype=np.float32), np.empty(128, np.float32)
    compiled = two_stores_kernel[(1,)](both[:128], out, np.empty(128, np.float32), BLOCK=128)
    assert marks(compiled) == 3 and (out == both[:128]).all()


def test_views_of_another_type_are_not_trusted():
    data = np.arange(600, dtype=np.float32)
    alias = data.view(np.int32)[16:].view(np.float32)
    want = data.copy()
    want[16:316] = data[:300] + 1
    assert marks(shift_kernel[(1,)](data, alias, 300, BLOCK=512)) == 0
    assert (data == want).all()

"""Ways in which ported programs move pointers: steps in loops with exits, offsets that wrap around."""

import kiln
import kiln.language as kl
import numpy as np
import pytest

rng = np.random.default_rng(11)


@kiln.jit
def until_large(x, out, n, limit, BLOCK: kl.constexpr):
    p = x + kl.arange(0, BLOCK)
    total = kl.zeros([BLOCK], kl.float32)
    for _ in range(n):
        value = kl.load(p)
        total += value
        if kl.sum(value) > limit:
            break
        p += BLOCK
    kl.store(out + kl.arange(0, BLOCK), total)
    kl.store(out + BLOCK + kl.arange(0, BLOCK), kl.load(p))


@pytest.mark.parametrize("limit, blocks", [(1e9, 9), (40.0, 5), (-1.0, 1)])
def test_break_keeps_the_pointers_where_they_were(limit, blocks):
    x = rng.random((10, 64), np.float32)
    x[:4] *= 0.5
    x[4] += 1
    out = np.zeros((2, 64), np.float32)
    until_large[(1,)](x, out, 9, limit, 64)
    np.testing.assert_allclose(out[0], x[:blocks].sum(0), rtol=1e-6)
    np.testing.assert_array_equal(out[1], x[9 if blocks == 9 else blocks - 1])


@kiln.jit
def skipping(x, out, n, BLOCK: kl.constexpr):
    """Down from the end: two blocks at a time after a block that starts with a negative element."""
    offsets = (n - 1) * BLOCK + kl.arange(0, BLOCK)
    total = kl.zeros([BLOCK], kl.float32)
    i = n - 1
    while i >= 0:
        total += kl.load(x + offsets)
        first = kl.load(x + i * BLOCK)
        i -= 1
        offsets -= BLOCK
        if first < 0:
            i -= 1
            offsets -= BLOCK
            continue
        if first > 2:
            break
    kl.store(out + kl.arange(0, BLOCK), total)


def test_while_with_continue():
    x = rng.standard_normal((40, 32)).astype(np.float32)
    x[3, 0], x[4, 0] = 2.5, 0.5
    out = np.zeros(32, np.float32)
    skipping[(1,)](x, out, 40, 32)
    want, i = np.zeros(32, np.float32), 39
    while i >= 0:
        want += x[i]
        if x[i, 0] > 2:
            break
        i -= 2 if x[i, 0] < 0 else 1
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


@kiln.jit
def triangle(x, out, n, BLOCK: kl.constexpr):
    """A loop in a loop; both move the pointers."""
    p = x + kl.arange(0, BLOCK)
    total = kl.zeros([BLOCK], kl.float32)
    for row in range(n):
        for _ in range(row):
            total += kl.load(p)
            p += BLOCK
        p += 2 * BLOCK
    kl.store(out + kl.arange(0, BLOCK), total)


def test_nested_steps():
    x = rng.random((40, 16), np.float32)
    out = np.zeros(16, np.float32)
    triangle[(1,)](x, out, 6, 16)
    want, at = np.zeros(16, np.float32), 0
    for row in range(6):
        want += x[at : at + row].sum(0)
        at += row + 2
    np.testing.assert_allclose(out, want, rtol=1e-5)

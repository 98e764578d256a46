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
    """Walks down from the end; after a block that starts with a negative element it moves two blocks at a time."""
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


@kiln.jit
def wrapped(x, y, out, n, start, limit, MASK: kl.constexpr, BLOCK: kl.constexpr):
    """Reads around the end of x, and writes the same way (each place once); n goes after the end of out."""
    lane = kl.arange(0, BLOCK)
    at = (start + lane) % n
    if MASK:
        kl.store(out + at, kl.load(x + at, mask=lane < limit, other=-1) + kl.load(y + lane), mask=lane < limit)
    else:
        kl.store(out + at, kl.load(x + at) + kl.load(y + lane))
    kl.store(out + n, n)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.int64])
@pytest.mark.parametrize("n, start, limit", [(64, 0, 64), (100, 36, 50), (100, 37, 64), (70, 50, 33), (64, 1, 0)])
@pytest.mark.parametrize("mask", [False, True])
def test_offsets_that_wrap(kind, n, start, limit, mask):
    x, y = rng.integers(0, 50, (2, n)).astype(kind)
    out, want = np.full((2, n + 1), -9, kind)
    wrapped[(1,)](x, y, out, n, start, limit, mask, 64)
    at = (start + np.arange(64)) % n
    kept = np.arange(64) < (limit if mask else 64)
    want[at[kept]] = (x[at] + y[:64])[kept]
    want[n] = n
    np.testing.assert_array_equal(out, want)


@kiln.jit
def indexed(x, index, out, BLOCK: kl.constexpr):
    lane = kl.arange(0, BLOCK)
    kl.store(out + lane, kl.load(x + kl.load(index + lane)))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_indices_that_are_runs_here_and_there(kind):
    x = rng.random(400, np.float32)
    index = np.concatenate([np.arange(16), rng.permutation(100)[:16], np.arange(60, 76), np.arange(15, -1, -1)])
    index[40] += 1  # all but one lane in order
    out = np.zeros(64, np.float32)
    indexed[(1,)](x, index.astype(kind), out, 64)
    np.testing.assert_array_equal(out, x[index])


@kiln.jit
def product(a, b, c, m, n, k, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    rows = kl.program_id(0) * M + kl.arange(0, M)
    columns = kl.program_id(1) * N + kl.arange(0, N)
    depth = kl.arange(0, K)
    p = a + (rows % m)[:, None] * k + depth[None, :]
    q = b + depth[:, None] * n + (columns % n)[None, :]
    total = kl.zeros([M, N], kl.float32)
    for i in range(kl.cdiv(k, K)):
        left = k - i * K
        x = kl.load(p, mask=depth[None, :] < left, other=0)
        y = kl.load(q, mask=depth[:, None] < left, other=0)
        total = kl.dot(x, y, total)
        p += K
        q += K * n
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    kl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)


@pytest.mark.parametrize("m, n, k", [(64, 64, 32), (70, 90, 33), (33, 40, 64)])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_matmul_with_wrapped_rows_and_columns(m, n, k, kind):
    a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
    c = np.zeros((m, n), np.float32)
    product[(-(-m // 32), -(-n // 32))](a, b, c, m, n, k, 32, 32, 16)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3, atol=1e-3)


# ---- a table of addresses
@kiln.jit
def k_grouped(a_table, b_table, c_table, sizes, strides, groups, PROGRAMS: kl.constexpr, TILE: kl.constexpr):
    tile = kl.program_id(0)
    end = 0
    for g in range(groups):
        m, n, k = kl.load(sizes + 3 * g), kl.load(sizes + 3 * g + 1), kl.load(sizes + 3 * g + 2)
        across = kl.cdiv(n, TILE)
        count = kl.cdiv(m, TILE) * across
        while tile >= end and tile < end + count:
            lda, ldb, ldc = kl.load(strides + 3 * g), kl.load(strides + 3 * g + 1), kl.load(strides + 3 * g + 2)
            a = kl.load(a_table + g).to(kl.pointer_type(kl.float16))
            b = kl.load(b_table + g).to(kl.pointer_type(kl.float16))
            c = kl.load(c_table + g).to(kl.pointer_type(kl.float16))
            rows = (tile - end) // across * TILE + kl.arange(0, TILE)
            columns = (tile - end) % across * TILE + kl.arange(0, TILE)
            inner = kl.arange(0, TILE)
            a_tile = a + rows[:, None] * lda + inner[None, :]
            b_tile = b + inner[:, None] * ldb + columns[None, :]
            total = kl.zeros((TILE, TILE), kl.float32)
            for _ in range(0, kl.cdiv(k, TILE)):
                kl.multiple_of(a_tile, [16, 16])
                total += kl.dot(kl.load(a_tile), kl.load(b_tile))
                a_tile += TILE
                b_tile += TILE * ldb
            kl.store(c + ldc * rows[:, None] + columns[None, :], total.to(kl.float16))
            tile += PROGRAMS
        end += count


@pytest.mark.cpu  # the addresses are of the host
@pytest.mark.parametrize("programs, tile", [(1, 16), (5, 32), (84, 32)])
def test_a_table_of_addresses(programs, tile):
    sizes = [(64, 96, 32), (32, 32, 128), (128, 64, 64), (32, 128, 96)]
    a = [(rng.standard_normal((m, k)) / 4).astype(np.float16) for m, n, k in sizes]
    b = [(rng.standard_normal((k, n)) / 4).astype(np.float16) for m, n, k in sizes]
    c = [np.zeros((m, n), np.float16) for m, n, k in sizes]
    tables = [np.array([x.ctypes.data for x in group], np.int64) for group in (a, b, c)]
    strides = np.array([(k, n, n) for m, n, k in sizes], np.int32)
    k_grouped[(programs,)](*tables, np.array(sizes, np.int32), strides, len(sizes), programs, tile)
    for x, y, z in zip(a, b, c, strict=True):
        np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), atol=4e-3)

"""Products in kernels written with pointers, on the device: they use descriptors where a launch allows it.

Operands are small integers, so that results are exact; the sizes are not multiples of any tile; the memory around the
result must not change.
"""

import kiln
import kiln.language as kl
import pytest

SIZES = [(1000, 776, 520), (128, 256, 64), (64, 64, 64), (129, 520, 72), (2048, 1032, 40)]
TILES = [(128, 256, 64, 8, 3), (64, 64, 32, 4, 4), (128, 128, 64, 4, 3)]


@kiln.jit
def tile_of(program, m, n, BM: kl.constexpr, BN: kl.constexpr):
    """The row and column of a program's tile, in groups of four tile rows; the grid may be of any size."""
    tiles, across = kl.cdiv(m, BM), kl.cdiv(n, BN)
    group = program // (4 * across)
    height = min(tiles - group * 4, 4)
    return group * 4 + program % (4 * across) % height, program % (4 * across) // height


@kiln.jit
def grouped(a, b, c, m, n, k, of_a, of_b, of_c, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr):
    row, column = tile_of(kl.program_id(0), m, n, BM, BN)
    rows, columns, depth = (row * BM + kl.arange(0, BM)) % m, (column * BN + kl.arange(0, BN)) % n, kl.arange(0, BK)
    left, right = a + rows[:, None] * of_a + depth[None, :], b + depth[:, None] * of_b + columns[None, :]
    total = kl.zeros((BM, BN), kl.float32)
    for start in range(0, kl.cdiv(k, BK)):
        x = kl.load(left, mask=depth[None, :] < k - start * BK, other=0.0)
        y = kl.load(right, mask=depth[:, None] < k - start * BK, other=0.0)
        total = kl.dot(x, y, total)
        left += BK
        right += BK * of_b
    rows, columns = row * BM + kl.arange(0, BM)[:, None], column * BN + kl.arange(0, BN)[None, :]
    # In a grid that is too large, tiles can be anywhere.
    inside = (rows >= 0) & (rows < m) & (columns >= 0) & (columns < n)
    kl.store(c + rows * of_c + columns, total.to(kl.float16), mask=inside)


@kiln.jit
def persistent(a, b, c, m, n, k, of_a, of_b, of_c, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr):
    for tile in range(kl.program_id(0), kl.cdiv(m, BM) * kl.cdiv(n, BN), kl.num_programs(0)):
        row, column = tile_of(tile, m, n, BM, BN)
        rows, columns = row * BM + kl.arange(0, BM), column * BN + kl.arange(0, BN)
        at, across = kl.where(rows < m, rows, 0), kl.where(columns < n, columns, 0)
        total = kl.zeros((BM, BN), kl.float32)
        for start in range(0, kl.cdiv(k, BK)):
            depth = start * BK + kl.arange(0, BK)
            x = kl.load(a + at[:, None] * of_a + depth[None, :], mask=depth[None, :] < k, other=0.0)
            y = kl.load(b + depth[:, None] * of_b + across[None, :], mask=depth[:, None] < k, other=0.0)
            total = kl.dot(x, y, total)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        kl.store(c + rows[:, None] * of_c + columns[None, :], total.to(kl.float16), mask=inside)


def integers(torch, *shape):
    return torch.randint(-1, 2, shape, device="cuda", dtype=torch.int32).half()


def check(torch, kernel, size, tile, grid, described):
    m, n, k = size
    bm, bn, bk, warps, stages = tile
    torch.manual_seed(m)
    a, b = integers(torch, m, k), integers(torch, k, n)
    around = torch.full((m + 2, n + 16), 7.0, device="cuda", dtype=torch.float16)
    c = around[1:-1, 8:-8]
    compiled = kernel[(grid,)](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), bm, bn, bk, num_warps=warps, num_stages=stages
    )
    assert torch.equal(c.double(), a.double() @ b.double())
    c.fill_(7.0)
    assert bool((around == 7.0).all())
    if torch.cuda.get_device_capability() == (9, 0):
        assert ("tile.make_desc" in compiled.asm["kgpu"]) == described
    return compiled


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_groups_without_an_assumption(torch, size, tile):
    tiles = -(-size[0] // tile[0]) * -(-size[1] // tile[1])
    check(torch, grouped, size, tile, tiles, described=True)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_loops_over_tiles(torch, size, tile):
    check(torch, persistent, size, tile, 7, described=True)


def test_grids_that_are_too_large(torch):
    """The last programs divide by a height that is not positive: they run code that assumes nothing about it."""
    tile = (128, 256, 64, 8, 3)  # seven rows of four, in groups of four rows
    check(torch, grouped, (850, 776, 520), tile, 28 + 3, described=True)
    check(torch, grouped, (850, 776, 520), tile, 32 + 3, described=False)

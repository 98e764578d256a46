"""Kernels to be tuned, in the subset that Kiln and Triton share, with the configurations of Triton's tutorials.

Run with `jit`, `tl` and `Config` in its globals, once for each of the two: `bench/tune.py` does.
"""

# ruff: noqa: F821 - jit, tl and Config are given

# Tile rows, columns and depth, programs per group, stages, warps: 03-matrix-multiplication of Triton 3.6.
_MATMUL = [
    (128, 256, 64, 8, 3, 8), (64, 256, 32, 8, 4, 4), (128, 128, 32, 8, 4, 4), (128, 64, 32, 8, 4, 4),
    (64, 128, 32, 8, 4, 4), (128, 32, 32, 8, 4, 4), (64, 32, 32, 8, 5, 2), (32, 64, 32, 8, 5, 2),
    (128, 256, 128, 8, 3, 8), (256, 128, 128, 8, 3, 8), (256, 64, 128, 8, 4, 4), (64, 256, 128, 8, 4, 4),
    (128, 128, 128, 8, 4, 4), (128, 64, 64, 8, 4, 4), (64, 128, 64, 8, 4, 4), (128, 32, 64, 8, 4, 4),
]  # fmt: skip


def matmul_configs():
    return [
        Config({"BM": m, "BN": n, "BK": k, "GROUP": group}, num_stages=stages, num_warps=warps)
        for m, n, k, group, stages, warps in _MATMUL
    ]


def attention_configs():
    """06-fused-attention of Triton 3.6, for a GPU like an H100."""
    return [
        Config({"BM": m, "BN": n}, num_stages=stages, num_warps=warps)
        for m in (64, 128)
        for n in (32, 64, 128)
        for stages in (2, 3, 4)
        for warps in (4, 8)
        if not (m * n < 128 * 128 and warps == 8)
    ]


@jit
def matmul(a, b, c, m, n, k, a_row, b_row, c_row,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    """c = a @ b of row-major float16, programs in groups of rows of tiles."""
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = program // (GROUP * tiles_n)
    height = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + program % (GROUP * tiles_n) % height
    tile_n = program % (GROUP * tiles_n) // height
    rows = (tile_m * BM + tl.arange(0, BM)) % m
    columns = (tile_n * BN + tl.arange(0, BN)) % n
    depth = tl.arange(0, BK)
    left = a + rows[:, None] * a_row + depth[None, :]
    right = b + depth[:, None] * b_row + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, tl.cdiv(k, BK)):
        inside = k - start * BK
        x = tl.load(left, mask=depth[None, :] < inside, other=0.0)
        y = tl.load(right, mask=depth[:, None] < inside, other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * b_row
    rows, columns = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_row + columns[None, :], total.to(tl.float16), mask=mask)


@jit
def attention(q, k, v, out, scale, tokens, head_stride,
              SIZE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """Softmax of q kᵀ · scale, in powers of two, times v; one head after the other, float16, no mask."""
    base = tl.program_id(1).to(tl.int64) * head_stride
    rows, columns, depth = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, SIZE)
    query = tl.load(q + base + rows[:, None] * SIZE + depth[None, :])
    keys = k + base + depth[:, None] + columns[None, :] * SIZE
    values = v + base + columns[:, None] * SIZE + depth[None, :]
    top = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, SIZE), tl.float32)
    for _ in range(0, tokens, BN):
        score = tl.dot(query, tl.load(keys)) * scale
        higher = tl.maximum(top, tl.max(score, 1))
        part = tl.math.exp2(score - higher[:, None])
        fade = tl.math.exp2(top - higher)
        weight = weight * fade + tl.sum(part, 1)
        total = tl.dot(part.to(tl.float16), tl.load(values), total * fade[:, None])
        top = higher
        keys += BN * SIZE
        values += BN * SIZE
    total = total / weight[:, None]
    tl.store(out + base + rows[:, None] * SIZE + depth[None, :], total.to(tl.float16))

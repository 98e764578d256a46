"""Products of kernels written with pointers and masks, with descriptors (`describe_pointers`) and without.

Operands are small integers, so every sum is exact. The memory around an array's rows is not zero, so that a box that
reaches farther than the pointers did would be noticed.
"""

import pathlib
import sys

import kiln
import kiln.language as kl
import numpy as np
import pytest

from emulator.test_tensor_cores import integers

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from pointers import by_pointers

BY_ENGINE = {"wgmma", "cp", "mbarrier"}


@kiln.jit
def masked(a, b, c, m, n, k, sa, sb, sc, of_a, of_b, of_c, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr,
           TURNED: kl.constexpr):  # fmt: skip
    """One product of a batch, every load and store masked; b as it is, or columns first."""
    batch = kl.program_id(2)
    rows, columns = kl.program_id(0) * M + kl.arange(0, M), kl.program_id(1) * N + kl.arange(0, N)
    total = kl.zeros((M, N), kl.float32)
    for i in range(0, k, K):
        depth = i + kl.arange(0, K)
        left = kl.load(a + batch * of_a + rows[:, None] * sa + depth[None, :],
                       mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)  # fmt: skip
        if TURNED:
            at = b + batch * of_b + columns[None, :] * sb + depth[:, None]
        else:
            at = b + batch * of_b + depth[:, None] * sb + columns[None, :]
        right = kl.load(at, mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = kl.dot(left, right, total)
    kl.store(c + batch * of_c + rows[:, None] * sc + columns[None, :], total.to(c.dtype.element_ty),
             mask=(rows[:, None] < m) & (columns[None, :] < n))  # fmt: skip


def padded(rng, shape, dtype="float16"):
    """An array whose rows are multiples of 16 bytes apart, between elements that no product may see."""
    *batch, rows, columns = shape
    whole = np.full((*batch, rows + 2, -(-columns // 8) * 8 + 8), 99, dtype)
    view = whole[..., 1 : rows + 1, :columns]
    view[...] = integers(rng, shape, dtype)
    return view


def strides(array):
    return [stride // array.itemsize for stride in array.strides]


def is_described(kernel):
    return "tensor_maps" in kernel.compiled.metadata["cuda"]


def tutorial(rng, sides, tile=(128, 128, 64), out="float32", describe=True, group=2, **options):
    m, n, k = sides
    a, b, c = padded(rng, (m, k)), padded(rng, (k, n)), padded(rng, (m, n), out)
    before = c.base.copy()
    before[1 : m + 1, :n] = a.astype(np.float64) @ b.astype(np.float64)

    def launch():
        c[...] = 0
        grid = (-(-m // tile[0]) * -(-n // tile[1]),)
        by_pointers[grid](a, b, c, m, n, k, *strides(a), *strides(b), *strides(c), *tile, group,
                        describe_pointers=describe, **options)  # fmt: skip
        return c.base.copy()

    return launch, before


@pytest.mark.parametrize(
    "sides", [(256, 128, 128), (200, 136, 168), (130, 77, 65), (3, 2, 7), (129, 300, 193)], ids=str
)
def test_tutorial(rng, in_orders, sides):
    """Rows and columns that wrap, a remainder of K, results between others."""
    launch, want = tutorial(rng, sides)
    for got in in_orders(launch, BY_ENGINE):
        assert (got == want).all()
    assert is_described(by_pointers)


def test_pointers_stay_pointers_if_asked(rng, in_orders):
    launch, want = tutorial(rng, (130, 72, 104), (64, 64, 32), describe=False)
    for got in in_orders(launch, {"wgmma"}):
        assert (got == want).all()
    assert not is_described(by_pointers)


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("batch", [1, 3])
def test_masks_batches_and_columns(rng, in_orders, turned, batch):
    m, n, k = 100, 72, 90
    a, b, c = padded(rng, (batch, m, k)), padded(rng, (batch, n, k) if turned else (batch, k, n)), padded(
        rng, (batch, m, n), "float32")  # fmt: skip
    right = b.astype(np.float64).transpose(0, 2, 1) if turned else b.astype(np.float64)
    want = c.base.copy()
    want[:, 1 : m + 1, :n] = a.astype(np.float64) @ right

    def launch():
        c[...] = 0
        (of_a, sa, _), (of_b, sb, _), (of_c, sc, _) = map(strides, (a, b, c))
        grid = (-(-m // 64), -(-n // 64), batch)
        masked[grid](a, b, c, m, n, k, sa, sb, sc, of_a, of_b, of_c, 64, 64, 32, turned,
                                      describe_pointers=True)  # fmt: skip
        return c.base.copy()

    for got in in_orders(launch, BY_ENGINE):
        assert (got == want).all()
    assert is_described(masked)


@kiln.jit
def attend(q, k, v, o, n, sq, sk, sv, so, of_q, of_k, of_v, of_o, scale, M: kl.constexpr, N: kl.constexpr,
           D: kl.constexpr):  # fmt: skip
    """Attention of one head: keys and values are masked, the head size is not."""
    head = kl.program_id(1)
    rows, depth = kl.program_id(0) * M + kl.arange(0, M), kl.arange(0, D)
    queries = kl.load(q + head * of_q + rows[:, None] * sq + depth[None, :], mask=rows[:, None] < n, other=0.0)
    most, weight = kl.full([M], float("-inf"), kl.float32), kl.zeros([M], kl.float32)
    total = kl.zeros([M, D], kl.float32)
    for start in range(0, n, N):
        columns = start + kl.arange(0, N)
        keys = kl.load(k + head * of_k + columns[:, None] * sk + depth[None, :], mask=columns[:, None] < n, other=0.0)
        score = kl.where(columns[None, :] < n, kl.dot(queries, keys.T) * scale, float("-inf"))
        next_most = kl.maximum(most, kl.max(score, 1))
        share, decay = kl.exp2(score - next_most[:, None]), kl.exp2(most - next_most)
        weight = weight * decay + kl.sum(share, 1)
        values = kl.load(v + head * of_v + columns[:, None] * sv + depth[None, :], mask=columns[:, None] < n, other=0.0)
        total = kl.dot(share.to(kl.float16), values, total * decay[:, None])
        most = next_most
    kl.store(o + head * of_o + rows[:, None] * so + depth[None, :], (total / weight[:, None]).to(kl.float16),
             mask=rows[:, None] < n)  # fmt: skip


@pytest.mark.parametrize("n", [64, 150])
def test_attention(rng, in_orders, n):
    q, k, v, o = (padded(rng, (2, n, 64)) for _ in range(4))
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
    share = np.exp2(scores - scores.max(2, keepdims=True))
    want = (share / share.sum(2, keepdims=True)) @ v.astype(np.float64)
    around = o.base.copy()

    def launch():
        o.base[...] = around
        batch, row = zip(*(strides(x)[:2] for x in (q, k, v, o)), strict=True)
        attend[-(-n // 64), 2](q, k, v, o, n, *row, *batch, 0.125, 64, 64, 64, describe_pointers=True)
        return o.base.copy()

    for got in in_orders(launch, BY_ENGINE):
        assert np.abs(got[:, 1 : n + 1, :64] - want).max() < 2e-2
        got[:, 1 : n + 1, :64] = around[:, 1 : n + 1, :64]
        assert (got == around).all()
    assert is_described(attend)

"""Products of the schedule `simple`: all warps copy ahead (cp.async) and multiply each slot once it has arrived, by
wgmma or through ldmatrix by mma.sync, depending on the target. KILN_TARGET=sm_80 runs this file for a target that has
only the latter.

As in test_tensor_cores.py, operands are small integers, so every sum is exact; in order 1 copies land as late as
possible, in order -1 at once.
"""

import os

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest
from harness import assert_close, random
from kiln.kernels import attention, gemm
from kiln.kernels.attention import reference as attention_reference
from kiln.kernels.gemm import reference
from kiln.kernels.gemm.configs import GemmPlan

from emulator.test_tensor_cores import _multiply, integers

GROUPS = os.environ.get("KILN_TARGET", "sm_90a") == "sm_90a"
COPIES = {"cp"}
BY_GROUPS, BY_WARPS = COPIES | {"wgmma"}, COPIES | {"mma", "ldmatrix"}
MULTIPLIES = BY_GROUPS if GROUPS else BY_WARPS


def multiply(rng, in_orders, tile, sides, dtype="float16", out="float32", acc=kl.float32, turned=(False, False),
             used=MULTIPLIES, **options):  # fmt: skip
    m, n, k = sides
    a, b = integers(rng, (m, k), dtype), integers(rng, (k, n), dtype)
    want = a.astype(np.float64) @ b.astype(np.float64)
    given = [np.ascontiguousarray(x.T if turn else x) for x, turn in zip((a, b), turned, strict=True)]

    def launch():
        c = np.zeros((m, n), out)
        grid = -(-m // tile[0]), -(-n // tile[1])
        _multiply[grid](*given, c, m, n, k, *tile, *turned, acc, schedule="simple", **options)
        return c

    for got in in_orders(launch, used):
        assert (got == want.astype(out)).all()


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("warps", [4, 8])
def test_slots(rng, in_orders, stages, warps):
    """Seven steps of K: every slot is refilled."""
    multiply(rng, in_orders, (128, 64, 32), (128, 64, 224), stages=stages, num_warps=warps)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_fewer_steps_than_slots(rng, in_orders, steps):
    multiply(rng, in_orders, (64, 64, 32), (64, 64, 32 * steps), stages=4)


@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("k", [32, 64])
def test_major_orders(rng, in_orders, turned, k):
    multiply(rng, in_orders, (64, 128, k), (64, 128, 192), turned=turned, stages=3)


@pytest.mark.parametrize("sides", [(200, 136, 168), (8, 8, 8), (130, 264, 72), (1, 16, 784), (7, 777, 64)], ids=str)
def test_edges(rng, in_orders, sides):
    """If rows of b are not multiples of 16 bytes there are no async copies, and the sum is the same."""
    multiply(rng, in_orders, (64, 64, 32), sides, used=MULTIPLIES if sides[1] % 8 == 0 else set(), stages=3)


@pytest.mark.parametrize("tile", [(16, 64, 64), (64, 8, 64), (96, 64, 32), (64, 160, 32), (32, 32, 128)], ids=str)
def test_tiles(rng, in_orders, tile):
    used = COPIES | {"mma"} if not GROUPS or tile[0] < 64 or tile[1] < 16 or tile[0] == 96 else BY_GROUPS
    multiply(rng, in_orders, tile, (tile[0], tile[1] * 2, 256), used=used, stages=3)


@pytest.mark.parametrize("dtype, acc, out", [
    ("bfloat16", kl.float32, "float32"), ("int8", kl.int32, "int32"), ("float32", kl.float32, "float32"),
    ("float8_e4m3fn", kl.float32, "float32"), ("float8_e5m2", kl.float32, "float32"),
    ("float16", kl.float16, "float16"),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("turned", [(False, False), (False, True)], ids=str)
def test_types(rng, in_orders, dtype, acc, out, turned):
    dtype = getattr(ml_dtypes, dtype, dtype)
    tile = (64, 64, 128 // np.dtype(dtype).itemsize)
    multiply(rng, in_orders, tile, (72, 80, 3 * tile[2]), dtype, out, acc, turned, used=COPIES, stages=2)


@kiln.jit
def _by_pointers(a, b, c, m, n, k, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    rows, columns = kl.program_id(0) * M + kl.arange(0, M), kl.program_id(1) * N + kl.arange(0, N)
    depth = kl.arange(0, K)
    a_ptrs = a + rows[:, None] * k + depth[None, :]
    b_ptrs = b + depth[:, None] * n + columns[None, :]
    total = kl.zeros((M, N), kl.float32)
    for i in range(0, k, K):
        left = kl.load(a_ptrs, mask=(rows[:, None] < m) & (depth[None, :] < k - i), other=0.0)
        right = kl.load(b_ptrs, mask=(depth[:, None] < k - i) & (columns[None, :] < n), other=0.0)
        total = kl.dot(left, right, total)
        a_ptrs += K
        b_ptrs += K * n
    kl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@pytest.mark.parametrize("sides", [(64, 64, 160), (72, 80, 208), (16, 48, 16), (65, 70, 33)], ids=str)
def test_pointers(rng, in_orders, sides):
    """Async copies if addresses and the ends of masks are multiples of 16; the last product is loaded directly."""
    m, n, k = sides
    a, b = integers(rng, (m, k), "float16"), integers(rng, (k, n), "float16")

    def launch():
        c = np.zeros((m, n), "float32")
        _by_pointers[-(-m // 64), -(-n // 64)](a, b, c, m, n, k, 64, 64, 32, schedule="simple", stages=3)
        return c

    used = MULTIPLIES if n % 16 == 0 and k % 16 == 0 else set()
    for got in in_orders(launch, used):
        assert (got == a.astype(np.float64) @ b.astype(np.float64)).all()


@kiln.jit
def _two_products(a, b, c, d, m, k, S: kl.constexpr, K: kl.constexpr):
    """Two products of one row block; programs loop over several column blocks each and share loads."""
    rows = kl.make_tensor_descriptor(a, [m, k], [k, 1], [S, K])
    first = kl.make_tensor_descriptor(b, [m, k], [k, 1], [S, K])
    second = kl.make_tensor_descriptor(c, [m, k], [k, 1], [S, K])
    out = kl.make_tensor_descriptor(d, [m, m], [m, 1], [S, S])
    row = kl.program_id(0) * S
    for column in range(0, m, S):
        one, other = kl.zeros((S, S), kl.float32), kl.zeros((S, S), kl.float32)
        for i in range(0, k, K):
            left = rows.load([row, i])
            one = kl.dot(left, first.load([column, i]).T, one)
            other = kl.dot(left * 2, second.load([column, i]).T, other)
        out.store([row, column], one - other)


def test_two_products_in_a_loop_around(rng, in_orders):
    m, k = 192, 112
    a, b, c = (integers(rng, (m, k), "float16") for _ in range(3))
    want = a.astype(np.float64) @ b.astype(np.float64).T - 2 * (a.astype(np.float64) @ c.astype(np.float64).T)

    def launch():
        d = np.zeros((m, m), "float32")
        _two_products[3,](a, b, c, d, m, k, 64, 32, schedule="simple", stages=3)
        return d

    for got in in_orders(launch, COPIES):
        assert (got == want).all()


@pytest.mark.skipif(GROUPS, reason="has a schedule of its own there")
@pytest.mark.parametrize("tokens", [(65, 130), (130, 64), (64, 300)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_has_keys_and_values_ahead(rng, in_orders, tokens, causal):
    q = random(rng, (1, tokens[0], 1, 64), "float16")
    k, v = (random(rng, (1, tokens[1], 1, 64), "float16") for _ in range(2))
    exact, _ = attention_reference.attention(q, k, v, causal=causal, return_lse=True)
    for got in in_orders(lambda: attention(q, k, v, causal=causal), BY_WARPS):
        assert np.abs(np.asarray(got, np.float64) - exact).max() <= 2.0**-9 * np.abs(np.asarray(v, np.float64)).max()


@kiln.jit
def _parts(a, b, c, m, k, S: kl.constexpr, K: kl.constexpr, PART: kl.constexpr):
    """Each program multiplies PART elements of K: its loop runs equally often wherever it begins."""
    rows = kl.make_tensor_descriptor(a, [m, k], [k, 1], [S, K])
    columns = kl.make_tensor_descriptor(b, [m, k], [k, 1], [S, K])
    out = kl.make_tensor_descriptor(c, [m * (k // PART), m], [m, 1], [S, S])
    part = kl.program_id(0)
    total = kl.zeros((S, S), kl.float32)
    for i in range(part * PART, part * PART + PART, K):
        total = kl.dot(rows.load([0, i]), columns.load([0, i]).T, total)
    out.store([part * S, 0], total)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_loops_that_begin_anywhere_and_run_equally_often(rng, in_orders, steps):
    """Conditions of copies ahead are folded to constants where the distance of both ends is one."""
    m, part, parts = 64, 64 * steps, 3
    a, b = (integers(rng, (m, part * parts), "float16") for _ in range(2))
    halves = np.split(a.astype(np.float64), parts, 1), np.split(b.astype(np.float64), parts, 1)
    want = np.concatenate([x @ y.T for x, y in zip(*halves, strict=True)])

    def launch():
        c = np.zeros((m * parts, m), "float32")
        _parts[parts,](a, b, c, m, part * parts, 64, 64, part, schedule="simple", stages=3)
        return c

    for got in in_orders(launch, COPIES):
        assert (got == want).all()


@kiln.jit
def _widened(a, b, c, m, n, k, S: kl.constexpr, K: kl.constexpr):
    rows = kl.make_tensor_descriptor(a, [m, k], [k, 1], [S, K])
    weights = kl.make_tensor_descriptor(b, [n, k], [k, 1], [S, K])
    out = kl.make_tensor_descriptor(c, [m, n], [n, 1], [S, S])
    row, column = kl.program_id(0) * S, kl.program_id(1) * S
    total = kl.zeros((S, S), kl.float32)
    for i in range(0, k, K):
        total = kl.dot(rows.load([row, i]), weights.load([column, i]).to(kl.float16).T, total)
    out.store([row, column], total)


def test_eight_bit_weights_are_widened_after_their_slot(rng, in_orders):
    m, n, k = 64, 128, 192
    a, b = integers(rng, (m, k), "float16"), integers(rng, (n, k), "int8")

    def launch():
        c = np.zeros((m, n), "float32")
        _widened[1, 2](a, b, c, m, n, k, 64, 64, schedule="simple", stages=3)
        return c

    for got in in_orders(launch, COPIES | {"wgmma" if GROUPS else "mma"}):
        assert (got == a.astype(np.float64) @ b.astype(np.float64).T).all()


@pytest.mark.parametrize("about", [{}, {"beta": 3.0}, {"epilogue": "swiglu"}, {"splits": 2}], ids=str)
def test_the_library(rng, in_orders, about):
    about = dict(about)
    plan = GemmPlan(64, 64, 32, "simple", stages=3, splits=about.pop("splits", 1))
    m, n, k = 80, 96, 200
    a, b = random(rng, (m, k), "float16"), random(rng, (k, n), "float16")
    if "beta" in about:
        about["c"] = random(rng, (m, n), "float16")
    results = in_orders(lambda: gemm.matmul(a, b, plan=plan, **about), MULTIPLIES)
    exact = reference.matmul(a, b, **about)
    for got in results:
        assert_close(got, exact, length=k, scale=np.sqrt(k) * 8)
        assert got.tobytes() == results[0].tobytes(), "the order of copies shows"


@pytest.mark.parametrize("dtype, options", [
    ("float16", {}), ("float16", {"accumulator": "f16"}), ("float32", {"precision": "tf32"}),
    ("float32", {"precision": "bf16x3"}), ("float8_e4m3fn", {}), ("int8", {}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [(2, 24, 72, 80), (1, 72, 104, 48), (1, 33, 65, 47)], ids=str)
def test_the_plans_of_targets_without_groups(rng, in_orders, monkeypatch, dtype, options, shape):
    """As the library plans them for this target, where single warps multiply: also batches, and strides that copies
    cannot use."""
    monkeypatch.setattr(gemm.configs, "FROM_SHARED", set())
    gemm.configs.plan.cache_clear()
    batches, m, n, k = shape
    dtype = getattr(ml_dtypes, dtype, dtype)
    a, b = integers(rng, (batches, m, k), dtype), integers(rng, (batches, k, n), dtype)
    a, b = (a[0], b[0]) if batches == 1 else (a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for got in in_orders(lambda: gemm.matmul(a, b, **options), set()):
        assert (np.asarray(got).astype(np.float64) == exact.astype(got.dtype).astype(np.float64)).all()
    gemm.configs.plan.cache_clear()


@kiln.jit
def _one_block_by_pointers(a, b, c, K, M: kl.constexpr, N: kl.constexpr, BLOCK: kl.constexpr, STAGES: kl.constexpr):
    rows, columns, k = kl.arange(0, M), kl.arange(0, N), kl.arange(0, BLOCK)
    a_ptrs, b_ptrs = a + rows[:, None] * K + k[None, :], b + k[:, None] * N + columns[None, :]
    sums = kl.zeros((M, N), c.dtype.element_ty)
    for _ in kl.range(0, kl.cdiv(K, BLOCK), num_stages=STAGES):
        sums = kl.dot(kl.load(a_ptrs), kl.load(b_ptrs), sums, input_precision="tf32", out_dtype=c.dtype.element_ty)
        a_ptrs += BLOCK
        b_ptrs += BLOCK * N
    kl.store(c + rows[:, None] * N + columns[None, :], sums)


@pytest.mark.skipif(not GROUPS, reason="shared memory of 227 KiB")
def test_sums_are_exchanged_in_the_memory_of_a_finished_ring(launched, rng):
    """The ring (three slots of 73,728 bytes) and the sums (131,072) do not fit together."""
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((64, 96), (96, 512)))

    def launch():
        c = np.zeros((64, 512), np.float32)
        _one_block_by_pointers[(1,)](a, b, c, 96, 64, 512, 32, 2)
        return c

    for got in launched(launch):
        assert (got == a @ b).all()

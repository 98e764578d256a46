"""Products on tensor cores, in kernels of the language and the library: exact sums in every order, with the schedule
that was asked for.

Operands are small integers, so every sum is exact in any order; in orders 1 and -1 copies land as late and as early as
possible, in the others at random.
"""

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest
from harness import assert_close, random
from kiln.kernels import gemm
from kiln.kernels.gemm.configs import GemmPlan
from kiln.kernels.machine import launch_options

# Instructions that the kernels of a schedule must contain.
INSTRUCTIONS = {
    "cooperative": {"wgmma", "cp", "mbarrier"},
    "pingpong": {"wgmma", "cp", "mbarrier"},
    "simple": {"wgmma", "cp"},
}


# Tests that do not pass yet, and why; a test that starts to pass fails until its line is removed here.
NOT_YET = {
    "test_tiles[(64, 8, 64)]": "rows of 16 bytes have no swizzle that products read",
}


@pytest.fixture(autouse=True)
def not_yet(request):
    reason = next((why for name, why in NOT_YET.items() if request.node.name.startswith(name)), None)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


def integers(rng, shape, dtype):
    return rng.integers(-3, 4, shape).astype(dtype)


@kiln.jit
def _multiply(a, b, c, m, n, k, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr, TURN_A: kl.constexpr,
              TURN_B: kl.constexpr, ACC: kl.constexpr):  # fmt: skip
    """c = a @ b, each stored as is or transposed."""
    if TURN_A:
        a_blocks = kl.make_tensor_descriptor(a, [k, m], [m, 1], [K, M])
    else:
        a_blocks = kl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    if TURN_B:
        b_blocks = kl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    else:
        b_blocks = kl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    c_blocks = kl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, column = kl.program_id(0) * M, kl.program_id(1) * N
    total = kl.zeros((M, N), ACC)
    for i in range(0, k, K):
        left = a_blocks.load([i, row]).T if TURN_A else a_blocks.load([row, i])
        right = b_blocks.load([column, i]).T if TURN_B else b_blocks.load([i, column])
        total = kl.dot(left, right, total, input_precision="tf32", out_dtype=ACC)
    c_blocks.store([row, column], total.to(c.dtype.element_ty))


def multiply(
    rng, in_orders, tile, sides, dtype="float16", out="float16", acc=kl.float32, turned=(False, False), **options
):
    m, n, k = sides
    a, b = integers(rng, (m, k), dtype), integers(rng, (k, n), dtype)
    want = a.astype(np.float64) @ b.astype(np.float64)
    given = [np.ascontiguousarray(x.T if turn else x) for x, turn in zip((a, b), turned, strict=True)]

    def launch():
        c = np.zeros((m, n), out)
        grid = -(-m // tile[0]), -(-n // tile[1])
        _multiply[grid](*given, c, m, n, k, *tile, *turned, acc, **options)
        return c

    # An empty sum has a stride of 0 elements, which no tensor map can have.
    for got in in_orders(launch, INSTRUCTIONS[options["schedule"]] if k else {"wgmma"}):
        assert (got == want.astype(out)).all()


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("consumers", [1, 2])
def test_a_ring_and_its_consumers(rng, in_orders, stages, consumers):
    """Six steps of K: every slot is refilled."""
    multiply(
        rng, in_orders, (128, 128, 64), (128, 128, 384), schedule="cooperative", stages=stages, consumers=consumers
    )


@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True)], ids=str)
def test_major_orders(rng, in_orders, turned):
    multiply(rng, in_orders, (128, 128, 64), (128, 128, 192), turned=turned, schedule="cooperative", stages=3)


@pytest.mark.parametrize("sides", [(200, 136, 168), (8, 8, 8), (130, 264, 72)], ids=str)
def test_edges(rng, in_orders, sides):
    multiply(rng, in_orders, (128, 128, 64), sides, schedule="cooperative", stages=2)


@pytest.mark.parametrize("tile", [(64, 8, 64), (128, 192, 64), (192, 96, 64), (64, 256, 64)], ids=str)
def test_tiles(rng, in_orders, tile):
    consumers = {64: 1, 128: 2, 192: 3}[tile[0]]
    multiply(rng, in_orders, tile, (*tile[:2], 192), schedule="cooperative", stages=2, consumers=consumers)


@pytest.mark.parametrize("dtype, acc, out", [
    ("bfloat16", kl.float32, "float32"), ("int8", kl.int32, "int32"),
    ("float8_e4m3fn", kl.float32, "float32"), ("float8_e5m2", kl.float32, "float32"),
    ("float16", kl.float16, "float16"), ("float32", kl.float32, "float32"),
], ids=str)  # fmt: skip
def test_types(rng, in_orders, dtype, acc, out):
    dtype = getattr(ml_dtypes, dtype, dtype)
    tile = (64, 64, 128 // np.dtype(dtype).itemsize)
    multiply(rng, in_orders, tile, (64, 64, 3 * tile[2]), dtype, out, acc, (False, True), schedule="cooperative",
             stages=2, consumers=1)  # fmt: skip


@pytest.mark.parametrize("cluster", [2])
def test_clusters_fetch_what_they_share_once(rng, in_orders, cluster):
    multiply(rng, in_orders, (256, 64, 64), (256, 64, 320), schedule="cooperative", stages=2, cluster=cluster)


@pytest.mark.parametrize("consumers", [1, 2])
def test_a_block_processes_several_tiles(rng, in_orders, emulated, consumers):
    tile = (64 * consumers, 64, 64)
    with emulated.few_blocks(2):
        multiply(rng, in_orders, tile, (320, 192, 128), schedule="cooperative", stages=3, consumers=consumers)


@kiln.jit
def _shifted(a, b, c, m, n, k, shift, N: kl.constexpr):
    """The product with its tiles shifted left by `shift` columns; tiles that are entirely outside are dropped."""
    a_blocks = kl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 64])
    b_blocks = kl.make_tensor_descriptor(b, [k, n], [n, 1], [64, N])
    c_blocks = kl.make_tensor_descriptor(c, [m, n], [n, 1], [64, N])
    column = kl.program_id(0) * N
    total = kl.zeros((64, N), kl.float32)
    for i in range(0, k, 64):
        total = kl.dot(a_blocks.load([0, i]), b_blocks.load([i, column]), total)
    c_blocks.store([0, column - shift], total.to(c.dtype.element_ty))


@pytest.mark.parametrize("shift", [128, 256, 512])
def test_nothing_is_written_before_the_first_column(rng, in_orders, shift):
    """Boxes of 64 columns are requested only if they reach the array; the engine takes no others."""
    a, b = integers(rng, (64, 128), "float16"), integers(rng, (128, 384), "float16")
    want = np.zeros((64, 384), np.float16)
    want[:, : max(384 - shift, 0)] = (a.astype(np.float64) @ b.astype(np.float64))[:, shift:]

    def launch():
        c = np.zeros((64, 384), np.float16)
        _shifted[3,](a, b, c, 64, 384, 128, shift, 128, schedule="cooperative", stages=2, consumers=1)
        return c

    for got in in_orders(launch, INSTRUCTIONS["cooperative"]):
        assert (got == want).all()


@pytest.mark.parametrize("tiles", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("depth", [0, 64, 320])
def test_groups_take_turns(rng, in_orders, emulated, tiles, depth):
    """A block processes an odd or an even number of tiles, each longer and shorter than the ring."""
    # Without products there is no ring, and each tile has its own block.
    with emulated.few_blocks(1 if depth else tiles, skips=True):
        multiply(rng, in_orders, (64, 64, 64), (64 * tiles, 64, depth), schedule="pingpong", stages=3)


def test_groups_take_turns_in_clusters(rng, in_orders, emulated):
    with emulated.few_blocks(1, skips=True):
        multiply(rng, in_orders, (128, 64, 64), (384, 64, 192), schedule="pingpong", stages=2, cluster=2)


@pytest.mark.parametrize("tile, sides, options", [
    ((128, 64, 64), (392, 72, 136), {"stages": 2}), ((192, 64, 64), (392, 72, 8), {"stages": 3, "consumers": 3}),
    ((256, 128, 64), (392, 72, 64), {"stages": 2}), ((256, 64, 64), (392, 72, 136), {"stages": 2, "cluster": 2}),
], ids=str)  # fmt: skip
def test_groups_end_tiles_apart(rng, in_orders, emulated, tile, sides, options):
    """A block processes several tiles; a group's part of the last one may be outside the result."""
    with emulated.few_blocks(1):
        multiply(rng, in_orders, tile, sides, schedule="cooperative", **{"consumers": 2} | options)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_where_they_stand(rng, in_orders, dtype):
    dtype = getattr(ml_dtypes, dtype, dtype)
    multiply(rng, in_orders, (64, 64, 32), (72, 104, 96), dtype, "float32", schedule="simple", stages=2)


PLANS = {
    "cooperative": GemmPlan(128, 128, 64, stages=2),
    "three consumers": GemmPlan(192, 64, 64, stages=2, consumers=3),
    "few rows": GemmPlan(16, 128, 64, stages=3),
    "one row of tiles": GemmPlan(192, 64, 64, stages=2, consumers=3, group=0),
    "columns of 96": GemmPlan(128, 96, 64, stages=2),
    "splits": GemmPlan(128, 64, 64, stages=2, splits=2),
    "skewed": GemmPlan(16, 64, 64, stages=3, consumers=1, skew=1),
    "cluster": GemmPlan(256, 64, 64, stages=2, cluster=2),
    "shared sums": GemmPlan(128, 64, 128, stages=2, cluster=2, share="k"),
    "shared sums of few rows": GemmPlan(32, 64, 256, stages=2, consumers=1, cluster=4, share="k"),
    "turns": GemmPlan(64, 96, 64, "pingpong", stages=3),
    "turns in a cluster": GemmPlan(128, 64, 64, "pingpong", stages=2, cluster=2),
    "simple": GemmPlan(64, 64, 32, "simple", stages=2),
    "last": GemmPlan(128, 64, 64, stages=2, splits=3, reduce="last"),
    "shares": GemmPlan(64, 64, 64, stages=2, consumers=1, workers=4),
    "shares of few rows": GemmPlan(16, 128, 64, stages=3, workers=11, waves=1),
    "shares by turns": GemmPlan(64, 64, 64, "pingpong", stages=3, workers=7),
    "shares, simple": GemmPlan(64, 64, 32, "simple", stages=2, workers=5, waves=1),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_library(rng, in_orders, name):
    plan = PLANS[name]
    a, b = random(rng, (144, 200), "float16"), random(rng, (200, 136), "float16")
    used = INSTRUCTIONS[plan.schedule]
    results = in_orders(lambda: gemm.matmul(a, b, plan=plan), used)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for got in results:
        assert_close(got, exact, length=200, scale=np.sqrt(200) * 8)
        assert got.tobytes() == results[0].tobytes(), "the order of copies shows"


CUT = {
    "float16, rows of two groups": ("float16", (130, 136, 304), GemmPlan(128, 64, 64, stages=2, workers=4)),
    "bfloat16, waves of tiles": ("bfloat16", (136, 136, 136), GemmPlan(64, 64, 64, stages=3, consumers=1, workers=4)),
    "many parts of few tiles": ("float16", (16, 130, 704), GemmPlan(16, 128, 64, stages=3, workers=9, waves=1)),
    "float16, by turns": ("float16", (136, 72, 504), GemmPlan(64, 64, 64, "pingpong", stages=2, workers=7)),
    "float8, sums of steps": ("float8_e4m3fn", (72, 72, 640), GemmPlan(64, 64, 128, stages=2, consumers=1, workers=3)),
    "tf32": ("float32", (72, 40, 200), GemmPlan(64, 64, 32, stages=2, consumers=1, workers=3, waves=1)),
    "int8": ("int8", (72, 40, 400), GemmPlan(64, 64, 128, stages=2, consumers=1, workers=5)),
    "by all warps": ("float16", (72, 136, 200), GemmPlan(64, 64, 32, "simple", stages=2, workers=5)),
    "splits": ("float16", (130, 72, 504), GemmPlan(64, 64, 64, stages=2, consumers=1, splits=3, reduce="last")),
    "splits, few rows": ("float16", (7, 130, 320), GemmPlan(8, 64, 64, stages=2, consumers=1, splits=4, reduce="last")),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_parts_of_a_tile_meet_in_any_order_of_programs(rng, in_orders, emulated, name):
    """Finds parts that are lost, added twice or too early, and terms applied to each part. No program may wait for
    another: if programs run one after another in some order, such a wait would never end."""
    dtype, (m, n, k), plan = CUT[name]
    dtype = getattr(ml_dtypes, dtype, dtype)
    a, b = integers(rng, (m, k), dtype), integers(rng, (n, k), dtype).T
    wide = np.int32 if name == "int8" else np.float32
    exact = a.astype(np.float64) @ b.astype(np.float64)
    given = {} if name == "int8" else {"c": integers(rng, (m, n), np.float32), "beta": 2.0}
    if given:
        exact = exact + 2 * given["c"]

    def launch():
        with emulated.any_program_first():
            return gemm.matmul(a, b, plan=plan, out_dtype=wide, precision="tf32", **given)

    for got in in_orders(launch, INSTRUCTIONS[plan.schedule] | {"atom"}):
        assert (got == exact).all()


SHARED = {
    "float16": ("float16", (130, 72, 392), GemmPlan(128, 64, 128, stages=2, cluster=2, share="k")),
    "one block has nothing": (
        "bfloat16", (64, 40, 56), GemmPlan(64, 32, 128, stages=2, consumers=1, cluster=2, share="k")),
    "two rounds of rows": ("float16", (200, 16, 136), GemmPlan(256, 16, 128, stages=2, cluster=2, share="k")),
    "few rows": ("float16", (7, 130, 520), GemmPlan(16, 64, 128, stages=3, consumers=1, cluster=2, share="k")),
    "float8, sums of steps": (
        "float8_e4m3fn", (72, 40, 640), GemmPlan(64, 32, 256, stages=2, consumers=1, cluster=2, share="k")),
    "tf32": ("float32", (72, 40, 200), GemmPlan(64, 32, 64, stages=2, consumers=1, cluster=2, share="k")),
    "int8": ("int8", (72, 40, 528), GemmPlan(64, 32, 512, stages=2, consumers=1, cluster=4, share="k")),
    "and splits": (
        "float16", (72, 40, 520), GemmPlan(64, 32, 128, stages=2, consumers=1, cluster=2, share="k", splits=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_a_cluster_adds_what_its_blocks_have_summed(rng, in_orders, name):
    """Finds sums that are lost, added twice or too early, and sums of a tile that arrive while those of the previous
    tile are being added: clusters process several tiles."""
    dtype, (m, n, k), plan = SHARED[name]
    dtype = getattr(ml_dtypes, dtype, dtype)
    a, b = integers(rng, (m, k), dtype), integers(rng, (n, k), dtype).T
    wide = np.int32 if name == "int8" else np.float32
    exact = a.astype(np.float64) @ b.astype(np.float64)
    given = {} if name == "int8" else {"c": integers(rng, (m, n), np.float32), "beta": 2.0}
    if given:
        exact = exact + 2 * given["c"]

    def launch():
        return gemm.matmul(a, b, plan=plan, out_dtype=wide, precision="tf32", **given)

    for got in in_orders(launch, INSTRUCTIONS["cooperative"] | {"st", "mapa"}):
        assert (got == exact).all()


@kiln.jit
def _until(a, b, c, n, WHERE: kl.constexpr):
    """c = a @ b in blocks of 64, going down the rows, with a loop that runs until a condition fails somewhere in it."""
    a_blocks = kl.make_tensor_descriptor(a, [n, n], [n, 1], [64, 64])
    b_blocks = kl.make_tensor_descriptor(b, [n, n], [n, 1], [64, 64])
    c_blocks = kl.make_tensor_descriptor(c, [n, n], [n, 1], [64, 64])
    column, row = kl.program_id(0) * 64, kl.program_id(1) * 64
    if WHERE == "around":
        while row < n:
            total = kl.zeros((64, 64), kl.float32)
            for k in range(0, n, 64):
                total = kl.dot(a_blocks.load([row, k]), b_blocks.load([k, column]), total)
            c_blocks.store([row, column], total.to(kl.float16))
            row += 64 * kl.num_programs(1)
        return
    step = 64
    if WHERE == "where to load":
        step = 1
        while step < 64:
            step *= 2
    total = kl.zeros((64, 64), kl.float32)
    for k in range(0, n, step):
        total = kl.dot(a_blocks.load([row, k]), b_blocks.load([k, column]), total)
    if WHERE == "behind":
        while kl.max(total) > 8:
            total = total * 0.5
    c_blocks.store([row, column], total.to(kl.float16))


@pytest.mark.parametrize("where, rings", [("around", False), ("where to load", False), ("behind", True)])
def test_loops_with_conditions(rng, in_orders, where, rings):
    """Producer and consumer would count iterations differently: such a kernel has no ring, but the same result."""
    a, b = integers(rng, (128, 128), "float16"), integers(rng, (128, 128), "float16")
    want = a.astype(np.float64) @ b.astype(np.float64)
    if where == "behind":
        for block in (want[i : i + 64, j : j + 64] for i in (0, 64) for j in (0, 64)):
            block *= 2.0 ** min(0, -np.ceil(np.log2(block.max() / 8)))

    def launch():
        c = np.zeros((128, 128), np.float16)
        _until[(2, 1 if where == "around" else 2)](a, b, c, 128, where)
        return c

    for got in in_orders(launch, {"wgmma", "mbarrier"} if rings else {"wgmma"}):
        assert (got == want.astype(np.float16)).all()


@pytest.mark.parametrize("name", [
    "cooperative", "few rows", "splits", "cluster", "turns", "turns in a cluster", "shares", "shared sums",
])  # fmt: skip
def test_launches_that_overlap(rng, in_orders, name):
    """Each role waits for the previous launch: the emulator faults if one accesses memory before that."""
    a, b = integers(rng, (144, 200), "float16"), integers(rng, (200, 136), "float16")
    exact = a.astype(np.float64) @ b.astype(np.float64)

    def launch():
        with launch_options(pdl=True):
            return gemm.matmul(a, b, beta=1.0, c=np.ones((144, 136), np.float16), plan=PLANS[name])

    for got in in_orders(launch, INSTRUCTIONS["cooperative"] | {"griddepcontrol"}):
        assert (got == exact + 1).all()


@pytest.mark.parametrize("shared", [None, "a", "b"])
@pytest.mark.parametrize("name", ["cooperative", "few rows", "splits", "cluster", "turns", "shared sums"])
def test_batches(rng, in_orders, name, shared):
    """The excess of a tile neither goes into another matrix of the batch nor comes from one."""
    sides = {"a": (3, 72, 136), "b": (3, 136, 88), "c": (3, 72, 88)}
    a, b, c = (integers(rng, side[1:] if which == shared else side, "float16") for which, side in sides.items())
    exact = a.astype(np.float64) @ b.astype(np.float64) + 2 * c.astype(np.float64)

    def launch():
        return gemm.matmul(a, b, beta=2.0, c=c, plan=PLANS[name], out_dtype="float32")

    for got in in_orders(launch, INSTRUCTIONS["cooperative"]):
        assert (got == exact).all()


@pytest.mark.parametrize("plan", [
    GemmPlan(64, 64, 128, stages=2, consumers=1), GemmPlan(16, 128, 128, stages=3),
    GemmPlan(64, 64, 128, "pingpong", stages=2),
], ids=str)  # fmt: skip
def test_sums_of_fp8(rng, in_orders, plan):
    """Sixteen steps of positive numbers: truncation errors add up unless each step is summed separately."""
    kind = ml_dtypes.float8_e4m3fn
    a, b = (rng.uniform(0.5, 1.5, sides).astype(kind) for sides in ((16, 2048), (2048, 128)))
    exact = a.astype(np.float64) @ b.astype(np.float64)

    def error(accumulator):
        def launch():
            return gemm.matmul(a, b.T.copy().T, plan=plan, accumulator=accumulator, out_dtype="float32")

        return max(np.abs(got / exact - 1).max() for got in in_orders(launch, INSTRUCTIONS["cooperative"]))

    assert error("f32") < 0.01 < 0.02 < error("fast")


@kiln.jit
def _limited(a, b, c, k, LIMIT: kl.constexpr):
    a_blocks = kl.make_tensor_descriptor(a, [64, k], [k, 1], [64, 128])
    b_blocks = kl.make_tensor_descriptor(b, [64, k], [k, 1], [64, 128])
    total = kl.zeros((64, 64), kl.float32)
    for i in range(0, k, 128):
        total = kl.dot(a_blocks.load([0, i]), b_blocks.load([0, i]).T, total, max_num_imprecise_acc=LIMIT)
    kl.make_tensor_descriptor(c, [64, 64], [64, 1], [64, 64]).store([0, 0], total)


@pytest.mark.parametrize("limit, least, most", [
    (None, 2.0**-7, 2.0**-4), (128, 2.0**-14, 2.0**-11), (90, 0, 2.0**-13), (32, 0, 2.0**-20), (31, 0, 2.0**-20),
    (0, 0, 2.0**-20),
])  # fmt: skip
def test_how_many_products_of_fp8_are_summed_by_the_instruction(rng, in_orders, limit, least, most):
    """Products of such numbers are multiples of 2^-8: they lose bits once a sum exceeds 32, and more the longer it goes
    on."""
    a, b = (rng.uniform(0.5, 1.5, (64, 2048)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64).T

    def launch():
        c = np.zeros((64, 64), np.float32)
        _limited[(1,)](a, b, c, 2048, limit)
        return c

    rings = limit is None or limit >= 32
    for got in in_orders(launch, INSTRUCTIONS["cooperative"] if rings else set()):
        assert least <= np.abs(got / exact - 1).max() <= most


@pytest.mark.parametrize("plan", [
    GemmPlan(128, 64, 64, stages=2), GemmPlan(64, 64, 64, stages=3, consumers=1),
    GemmPlan(256, 64, 64, stages=2, cluster=2), GemmPlan(64, 64, 64, "pingpong", stages=2),
    GemmPlan(16, 128, 64, stages=3, consumers=1),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("k", [64, 136])
def test_addends_come_through_a_channel_too(rng, in_orders, plan, k):
    """Blocks process several tiles: the single slot is refilled, even if a tile is one step."""
    m, n = 144, 200
    a, b, c, bias = (integers(rng, sides, "float16") for sides in ((m, k), (k, n), (m, n), (n,)))
    exact = 2 * (a.astype(np.float64) @ b.astype(np.float64)) + 3 * c.astype(np.float64) + bias.astype(np.float64)

    def launch():
        return gemm.matmul(a, b, alpha=2.0, beta=3.0, c=c, bias=bias, plan=plan, out_dtype="float32")

    for got in in_orders(launch, INSTRUCTIONS["cooperative"]):
        assert (got == exact).all()


@kiln.jit
def _pairs(x, out, steps, PAIRS: kl.constexpr):
    """The sum of products of pairs of tiles, each of which goes through shared memory."""
    at = kl.arange(0, 64)[:, None] * 64 + kl.arange(0, 64)[None, :]
    total = kl.zeros((64, 64), kl.float32)
    for step in range(steps):
        for pair in kl.static_range(PAIRS):
            left = kl.load(x + (step * 2 * PAIRS + 2 * pair) * 4096 + at)
            right = kl.load(x + (step * 2 * PAIRS + 2 * pair + 1) * 4096 + at)
            total = kl.dot(left, right, total, input_precision="tf32")
    kl.store(out + at, total)


def test_operands_of_products_share_memory_if_it_is_short(rng, in_orders):
    """Eight pairs take 262,144 bytes separately, and a block has 232,448: after its product, a tile's bytes are
    free."""
    x = integers(rng, (2, 8, 2, 64, 64), "float32")
    want = np.einsum("spij,spjk->ik", x[:, :, 0], x[:, :, 1])

    def launch():
        out = np.zeros((64, 64), np.float32)
        _pairs[1](x, out, 2, 8, num_warps=4)
        return out

    for got in in_orders(launch, {"wgmma"}):
        assert (got == want).all()

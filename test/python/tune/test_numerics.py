"""Which configurations give the same bits: what the compiler says about their code, compared with the actual results.

There are two claims. Equal signatures mean equal bits, for every pair of configurations of every kernel here. And what
does not change the order of sums (the sides of tiles that only divide the work, warps, stages) does not change the
signature. Each kernel shows one way in which an order can differ; its comment says which part of the analysis covers
it.
"""

from __future__ import annotations

import itertools

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import _kiln, errors, knobs
from kiln.tune.numerics import difference, signature_of
from tuned_kernels import blocks

pytestmark = pytest.mark.cpu  # the bits are those of the CPU target

M, N, K = 96, 80, 330
RNG = np.random.default_rng(11)
A, B = RNG.standard_normal((M, K), dtype=np.float32), RNG.standard_normal((K, N), dtype=np.float32)


@kiln.jit
def matmul(a, b, out, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, SPLIT: kl.constexpr, FRESH: kl.constexpr,
           TYPE: kl.constexpr, M: kl.constexpr, N: kl.constexpr, K):  # fmt: skip
    rows = kl.program_id(0) * BM + kl.arange(0, BM)
    columns = kl.program_id(1) * BN + kl.arange(0, BN)
    part = kl.program_id(2)
    total = kl.zeros((BM, BN), TYPE)
    for k in range(0, kl.cdiv(K, BK * SPLIT)):
        along = (k * SPLIT + part) * BK + kl.arange(0, BK)
        x = kl.load(a + rows[:, None] * K + along[None, :], mask=(rows[:, None] < M) & (along[None, :] < K), other=0.0)
        y = kl.load(
            b + along[:, None] * N + columns[None, :], mask=(along[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        if FRESH:
            total += kl.sum(x[:, :, None] * y[None, :, :], axis=1).to(TYPE)
        else:
            total = kl.dot(x, y, total) if TYPE == kl.float32 else total + kl.dot(x, y).to(TYPE)
    place = out + (part * M + rows[:, None]) * N + columns[None, :]
    kl.store(place, total.to(kl.float32), mask=(rows[:, None] < M) & (columns[None, :] < N))


def run_matmul(BM=32, BN=16, BK=16, SPLIT=1, FRESH=False, TYPE=kl.float32, **options):
    """Adds the parts on the host, in order."""
    out = np.zeros((SPLIT, M, N), np.float32)
    grid = (kiln.cdiv(M, BM), kiln.cdiv(N, BN), SPLIT)
    compiled = matmul[grid](A, B, out, BM, BN, BK, SPLIT, FRESH, TYPE, M, N, K, **options)
    total = out[0]
    for part in out[1:]:
        total = total + part
    return total, compiled


@kiln.jit
def by_pointers(a, b, out, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, GROUP: kl.constexpr, M, N, K):
    pid = kl.program_id(0)
    width = GROUP * kl.cdiv(N, BN)
    first = pid // width * GROUP
    height = min(kl.cdiv(M, BM) - first, GROUP)
    m, n = first + pid % width % height, pid % width // height
    rows, columns, along = m * BM + kl.arange(0, BM), n * BN + kl.arange(0, BN), kl.arange(0, BK)
    x_at = a + (rows % M)[:, None] * K + along[None, :]
    y_at = b + along[:, None] * N + (columns % N)[None, :]
    total = kl.zeros((BM, BN), kl.float32)
    for k in range(0, kl.cdiv(K, BK)):
        x = kl.load(x_at, mask=along[None, :] < K - k * BK, other=0.0)
        total = kl.dot(x, kl.load(y_at, mask=along[:, None] < K - k * BK, other=0.0), total)
        x_at += BK
        y_at += BK * N
    kl.store(out + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


def run_by_pointers(BM=32, BN=16, BK=16, GROUP=2, **options):
    out = np.zeros((M, N), np.float32)
    grid = (kiln.cdiv(M, BM) * kiln.cdiv(N, BN),)
    return out, by_pointers[grid](A, B, out, BM, BN, BK, GROUP, M, N, K, **options)


@kiln.jit
def persistent(a, out, BM: kl.constexpr, BK: kl.constexpr, PROGRAMS: kl.constexpr, M, K):
    for tile in range(kl.program_id(0), kl.cdiv(M, BM), PROGRAMS):
        rows = tile * BM + kl.arange(0, BM)
        total = kl.zeros((BM, BK), kl.float32)
        for k in range(0, K, BK):
            along = k + kl.arange(0, BK)
            total += kl.load(
                a + rows[:, None] * K + along[None, :], mask=(rows[:, None] < M) & (along[None, :] < K), other=0.0
            )
        kl.store(out + rows, kl.sum(total, axis=1), mask=rows < M)


def run_persistent(BM=4, BK=32, PROGRAMS=3):
    out = np.zeros(M, np.float32)
    return out, persistent[(PROGRAMS,)](A, out, BM, BK, PROGRAMS, M, K)


@kiln.jit
def row_sum(a, out, BM: kl.constexpr, SIDE: kl.constexpr, TWICE: kl.constexpr, M, K):
    rows, along = kl.program_id(0) * BM + kl.arange(0, BM), kl.arange(0, SIDE)
    x = kl.load(a + rows[:, None] * K + along[None, :], mask=(rows[:, None] < M) & (along[None, :] < K), other=0.0)
    if TWICE:
        total = kl.sum(kl.sum(x.reshape(BM, SIDE // TWICE, TWICE), axis=2), axis=1)
    else:
        total = kl.sum(x, axis=1)
    kl.store(out + rows, total, mask=rows < M)


def run_row_sum(BM=2, SIDE=512, TWICE=0):
    out = np.zeros(M, np.float32)
    return out, row_sum[(kiln.cdiv(M, BM),)](A, out, BM, SIDE, TWICE, M, K)


@kiln.jit
def parts(a, out, ROWS: kl.constexpr, PARTS: kl.constexpr, APART: kl.constexpr, M, K):
    """Sums each row in PARTS running sums: of contiguous elements, or of every PARTS-th element."""
    rows, part = kl.program_id(0) * ROWS + kl.arange(0, ROWS), kl.arange(0, PARTS)
    total = kl.zeros((ROWS, PARTS), kl.float32)
    for i in range(0, K // PARTS):
        along = part * (K // PARTS) + i if APART else i * PARTS + part
        total += kl.load(a + rows[:, None] * K + along[None, :], mask=rows[:, None] < M, other=0.0)
    kl.store(out + rows, kl.sum(total, axis=1), mask=rows < M)


def run_parts(ROWS=4, PARTS=2, APART=False):
    out = np.zeros(M, np.float32)
    return out, parts[(kiln.cdiv(M, ROWS),)](A, out, ROWS, PARTS, APART, M, K)


@kiln.jit
def backwards(a, out, BM: kl.constexpr, BACK: kl.constexpr, M, K):
    rows = kl.program_id(0) * BM + kl.arange(0, BM)
    total = kl.zeros((BM,), kl.float32)
    for i in range(0, K):
        k = K - 1 - i if BACK else i
        total += kl.load(a + rows * K + k, mask=rows < M, other=0.0)
    kl.store(out + rows, total, mask=rows < M)


def run_backwards(BM=16, BACK=False):
    out = np.zeros(M, np.float32)
    return out, backwards[(kiln.cdiv(M, BM),)](A, out, BM, BACK, M, K)


@kiln.jit
def softmax(a, out, BM: kl.constexpr, SIDE: kl.constexpr, M, K):
    rows = kl.program_id(0) * BM + kl.arange(0, BM)
    most = kl.full((BM,), -float("inf"), kl.float32)
    total = kl.zeros((BM,), kl.float32)
    for k in range(0, K, SIDE):
        along = k + kl.arange(0, SIDE)
        x = kl.load(
            a + rows[:, None] * K + along[None, :], mask=(rows[:, None] < M) & (along[None, :] < K), other=-float("inf")
        )
        higher = kl.maximum(most, kl.max(x, axis=1))
        total = total * kl.exp(most - higher) + kl.sum(kl.exp(x - higher[:, None]), axis=1)
        most = higher
    kl.store(out + rows, most + kl.log(total), mask=rows < M)


def run_softmax(BM=4, SIDE=64):
    out = np.zeros(M, np.float32)
    return out, softmax[(kiln.cdiv(M, BM),)](A, out, BM, SIDE, M, K)


@kiln.jit
def elementwise(a, out, BLOCK: kl.constexpr, HALF: kl.constexpr, n):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    x = kl.load(a + i, mask=i < n)
    x = x.to(HALF).to(kl.float32) if HALF else x
    kl.store(out + i, kl.exp(x) * x + i, mask=i < n)


def run_elementwise(BLOCK=64, HALF=None):
    out = np.zeros(M * K, np.float32)
    return out, elementwise[(kiln.cdiv(M * K, BLOCK),)](A, out, BLOCK, HALF, M * K)


@kiln.jit
def running(a, out, BM: kl.constexpr, SIDE: kl.constexpr, M, K):
    rows, along = kl.program_id(0) * BM + kl.arange(0, BM), kl.arange(0, SIDE)
    inside = (rows[:, None] < M) & (along[None, :] < K)
    x = kl.load(a + rows[:, None] * K + along[None, :], mask=inside, other=0.0)
    kl.store(out + rows[:, None] * K + along[None, :], kl.cumsum(x, axis=1), mask=inside)


def run_running(BM=2, SIDE=512):
    out = np.zeros((M, K), np.float32)
    return out, running[(kiln.cdiv(M, BM),)](A, out, BM, SIDE, M, K)


# Kernel: (alike: changes that must keep the signature, apart: changes that change the bits of some configuration). The
# comment names the part of the analysis that tells the `apart` changes: without it their signatures were equal.
CASES = {
    run_matmul: (
        [{"BM": 16}, {"BM": 64}, {"BN": 32}, {"BM": 48, "BN": 80}, {"num_warps": 8}, {"num_stages": 2}],
        # bounds of loops that carry floats; the reduced side; the type of carried values
        [{"SPLIT": 2}, {"SPLIT": 3, "BM": 64}, {"FRESH": True}, {"TYPE": kl.float16}],
    ),
    run_by_pointers: ([{"BM": 16}, {"BM": 64, "GROUP": 1}, {"BN": 32}, {"GROUP": 4}, {"num_warps": 1}], []),
    # loops that carry no floats only distribute the work
    run_persistent: ([{"BM": 8}, {"PROGRAMS": 5}, {"BM": 16, "PROGRAMS": 1}], [{"BK": 64}, {"BK": 16}]),
    # the sides that a reshape makes adjacent
    run_row_sum: ([{"BM": 1}, {"BM": 8}], [{"TWICE": 4}, {"TWICE": 64}, {"TWICE": 4, "BM": 8}]),
    # which elements an iteration reads
    run_parts: ([{"ROWS": 8}, {"ROWS": 32}], [{"APART": True}, {"PARTS": 1}]),
    run_backwards: ([{"BM": 32}, {"BM": 4}], [{"BACK": True}]),
    run_softmax: ([{"BM": 8}, {"BM": 1}], [{"SIDE": 128}, {"SIDE": 512}]),
    # the types of intermediate values
    run_elementwise: ([{"BLOCK": 256}, {"BLOCK": 1024}], [{"HALF": kl.float16}, {"HALF": kl.bfloat16}]),
    run_running: ([{"BM": 4}, {"BM": 8}], []),
}  # fmt: skip


def name_of(run):
    return run.__name__.removeprefix("run_")


@pytest.mark.parametrize("run", CASES, ids=name_of)
def test_equal_signatures_mean_equal_bits(run):
    alike, apart = CASES[run]
    others = [{"BK": 32}, {"BK": 64}] if run in (run_matmul, run_by_pointers) else []
    found = [(change, *run(**change)) for change in [{}, *alike, *apart, *others]]
    told = [(change, out, signature_of(compiled)) for change, out, compiled in found]
    for (one, bits, signature), (other, other_bits, other_signature) in itertools.combinations(told, 2):
        if not difference(signature, other_signature):
            assert np.array_equal(bits, other_bits), f"{one} and {other}"


@pytest.mark.parametrize("run", CASES, ids=name_of)
def test_dividing_the_work_differently_keeps_the_signature(run):
    alike, _ = CASES[run]
    _, default = run()
    for change in alike:
        _, compiled = run(**change)
        assert difference(signature_of(default), signature_of(compiled)) == "", change


@pytest.mark.parametrize("run", [run for run, (_, apart) in CASES.items() if apart], ids=name_of)
def test_changing_the_bits_changes_the_signature(run):
    _, apart = CASES[run]
    bits, default = run()
    for change in apart:
        other, compiled = run(**change)
        assert not np.array_equal(bits, other), f"{change} is no test of an order"
        assert difference(signature_of(default), signature_of(compiled)), change


def test_the_reason_says_which_sums_differ():
    _, default = run_matmul()
    _, compiled = run_matmul(BK=32, SPLIT=2)
    why = difference(signature_of(default), signature_of(compiled))
    assert why.startswith("combines floats in another order: product of 32 along K, f32 to f32; loop from 0 to ")
    assert "where the default has product of 16 along K, f32 to f32" in why


def test_sums_in_memory_have_no_order():
    @kiln.jit
    def kernel(a, out, BLOCK: kl.constexpr):
        kl.atomic_add(out, kl.sum(kl.load(a + kl.program_id(0) * BLOCK + kl.arange(0, BLOCK))))

    assert not signature_of(kernel[(4,)](A, np.zeros(1, np.float32), 16)).has_order
    assert signature_of(run_row_sum()[1]).has_order


def test_integer_sums_need_no_order():
    @kiln.jit
    def kernel(a, out, BLOCK: kl.constexpr):
        total = kl.zeros((BLOCK,), kl.int32)
        for k in range(0, 64, BLOCK):
            total += kl.load(a + k + kl.arange(0, BLOCK))
        kl.store(out, kl.sum(total))

    a, out = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    one, two = (signature_of(kernel[(1,)](a, out, block)) for block in (16, 32))
    assert difference(one, two) == ""


@pytest.mark.parametrize("changed", ["32", "fastmath", "f64"])
def test_a_signature_is_that_of_the_text(changed):
    """Computed by hand, and for one kernel of a module."""
    text = """
    func.func @k(%x: !tile.ptr<f32> {tile.name = "x"}) attributes {tile.kernel} {
      %r = tile.make_range 0 to 16 : tensor<16xi32>
      %p = tile.splat %x : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
      %a = tile.addptr %p, %r : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
      %v = tile.load %a : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
      %w = arith.extf %v : tensor<16xf32> to tensor<16xf64>
      %s = arith.addf %w, %w : tensor<16xf64>
      %t = arith.truncf %s : tensor<16xf64> to tensor<16xf32>
      tile.store %a, %t : tensor<16x!tile.ptr<f32>>, tensor<16xf32>
      return
    }
    """
    other = {
        "32": text.replace("16x", "32x").replace("to 16", "to 32"),
        "fastmath": text.replace("arith.addf %w, %w :", "arith.addf %w, %w fastmath<contract> :"),
        "f64": text.replace("%w = arith.extf %v : tensor<16xf32> to tensor<16xf64>", "")
        .replace("%t = arith.truncf %s : tensor<16xf64> to tensor<16xf32>", "")
        .replace("%w, %w : tensor<16xf64>", "%v, %v : tensor<16xf32>")
        .replace("%a, %t", "%a, %s"),
    }[changed]
    ((one, facts, products),) = _kiln.Module.parse(text).numerics()
    ((two, *_),) = _kiln.Module.parse(other).numerics()
    assert facts == [] and products == [] and (one == two) == (changed == "32")


# ---- a GPU's code: compiled, not run -----------------------------------------------------------------------------
def on_hopper(kernel, *arguments, **options):
    with knobs.scope(target="sm_90a", ptxas="none"):
        return signature_of(kernel.warmup(*arguments, grid=(1,), **options))


def test_signatures_describe_tensor_core_products_by_instruction_and_k():
    def product(BM=128, BN=128, BK=64, dtype=kl.float16, **options):
        return on_hopper(by_pointers, dtype, dtype, kl.float32, BM, BN, BK, 2, 4096, 4096, 4096, **options)

    default = product()
    assert len(default.products) == 1 and default.products[0].startswith("kgpu.warpgroup_mma ")
    for change in ({"BM": 64}, {"BN": 64}, {"num_warps": 8}, {"stages": 2}, {"schedule": "none"}):
        assert difference(default, product(**change)) == "", change
    for change in ({"BK": 32}, {"BM": 16, "BN": 16}, {"dtype": kl.bfloat16}):
        assert difference(default, product(**change)), change
    assert "kgpu.warp_mma" in difference(default, product(BM=16, BN=16))


def test_signatures_describe_reductions_by_their_layout():
    def reduction(**options):
        return on_hopper(row_sum, kl.float32, kl.float32, 2, 512, 0, 4096, 512, **options)

    default = reduction()
    assert difference(default, reduction(num_warps=4)) == ""
    assert "reduce" in difference(default, reduction(num_warps=8)), "other threads hold what is paired first"


# ---- same_numerics ---------------------------------------------------------------------------------------------------
@kiln.jit
def fold(x, out, n, BLOCK: kl.constexpr, ROWS: kl.constexpr):
    total = kl.zeros((BLOCK,), kl.float32)
    for k in range(0, n, BLOCK):
        i = k + kl.arange(0, BLOCK)
        total += kl.load(x + i, mask=i < n, other=0.0)
    kl.store(out, kl.sum(total))


def test_only_the_bits_of_the_default_are_raced(told, caplog):
    x, out, expected = A.ravel()[:999].copy(), np.zeros(1, np.float32), np.zeros(1, np.float32)
    fold[1](x, expected, 999, 32, 1)
    told.times = {16: 0.5, 32: 1.0}
    configs = [kiln.Config({"BLOCK": block, "ROWS": rows}) for block in (32, 16) for rows in (1, 2)]
    with caplog.at_level("INFO", logger="kiln.autotune"):
        tuned = kiln.autotune(configs, key=["n"], same_numerics=True)(fold)
        tuned[1](x, out, 999)
    assert set(told.sampled) == {32} and tuned.best_config.kwargs["BLOCK"] == 32 and out[0] == expected[0]
    assert (
        "BLOCK: 16, ROWS: 1" in caplog.text
        and "combines floats in another order: loop from 0 to n by 16" in caplog.text
    )
    free = kiln.autotune(configs, key=["n"])(fold)
    free[1](x, out, 999)
    assert free.best_config.kwargs["BLOCK"] == 16, "faster, and of other bits"
    again = kiln.autotune(configs, key=["n"], same_numerics=True)(kiln.jit(fold.fn))
    again[1](x, out, 999)
    assert again.best_config.kwargs["BLOCK"] == 32, "whatever times are kept"


def test_a_default_that_does_not_compile_has_no_bits(told):
    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr):
        kl.static_assert(BLOCK < 32)
        kl.store(out, 1.0)

    tuned = kiln.autotune(blocks(64, 16), key=["n"], same_numerics=True)(kernel)
    with pytest.raises(errors.LaunchError, match="expected the first configuration to compile"):
        tuned[1](np.zeros(1, np.float32), 5)

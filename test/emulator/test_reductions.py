"""Tiles that are combined into arrays through descriptors: by the copy engine, in every order of warps and copies."""

import kiln
import kiln.language as kl
import numpy as np
import pytest

ORDERS = (1, -1, 2)


@kiln.jit
def _reduce(x, y, rows, columns, LEFT: kl.constexpr, M: kl.constexpr, N: kl.constexpr, KIND: kl.constexpr):
    """Tiles of x into y, each by two programs; those of the first and last columns may lie across the ends."""
    from_ = kl.make_tensor_descriptor(x, (rows, columns), (columns, 1), (M, N))
    to = kl.make_tensor_descriptor(y, (rows, columns), (columns, 1), (M, N))
    row, column = kl.program_id(0) // 2 * M, kl.program_id(1) * N - LEFT
    tile = from_.load([row, column])
    if KIND == "add":
        to.atomic_add([row, column], tile)
    elif KIND == "max":
        to.atomic_max([row, column], tile)
    elif KIND == "min":
        to.atomic_min([row, column], tile)
    elif KIND == "and":
        to.atomic_and([row, column], tile)
    elif KIND == "or":
        to.atomic_or([row, column], tile)
    else:
        to.atomic_xor([row, column], tile)


def run(emulated, kind, dtype, left=0, sides=(96, 128), tile=(64, 64)):
    if not emulated:
        pytest.skip("not under `-p emulator.plugin`")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 8, sides).astype(dtype) for _ in range(2))
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
               "xor": np.bitwise_xor}[kind]  # fmt: skip
    want = combine(combine(y, x), x)
    grid = 2 * -(-sides[0] // tile[0]), -(-(sides[1] + left) // tile[1])
    for order in ORDERS:
        emulated.order = order
        got = y.copy()
        kernel = _reduce[grid](x, got, *sides, left, *tile, kind, num_warps=4)
        assert (got == want).all()
        assert ("cp.reduce.async.bulk.tensor.2d.global.shared::cta." + kind) in kernel.asm["ptx"]
    emulated.order = 1


@pytest.fixture
def emulated(request):
    return request.config.pluginmanager.hasplugin("emulator.plugin") and request.getfixturevalue("emulated")


@pytest.mark.parametrize(
    "kind, dtype",
    [("add", "float32"), ("add", "float16"), ("add", "int32"), ("max", "uint32"), ("min", "uint32"), ("and", "int32"),
     ("or", "uint32"), ("xor", "int32")],
)  # fmt: skip
def test_kinds(emulated, kind, dtype):
    """Boxes of 64 rows, the last with half of them, each added twice, by programs one after the other."""
    run(emulated, kind, dtype)


def test_ends(emulated):
    """A tile before the first column, of which no box must be asked for, and one whose last box is half behind the last
    column."""
    run(emulated, "add", "float32", left=64, sides=(64, 112))

"""Tensor descriptors against numpy: every rank, blocks with odd sides, blocks that leave the array on any side.

The CPU checks each access against the arrays: a block that is partly outside touches nothing there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from kiln import knobs
from kiln.runtime import placement
from kiln.tools.tensor_descriptor import TensorDescriptor
from running import launch, numpy_type

RNG = np.random.default_rng(11)
F32 = np.float32


@pytest.fixture(autouse=True)
def checked():
    """Accesses on a GPU are not checked here (the emulator checks them itself)."""
    with knobs.scope(check="none" if placement.names_gpu(knobs.target) else "bounds"):
        yield


def window(array: np.ndarray, offsets: Sequence[int], block: Sequence[int], fill: float = 0) -> np.ndarray:
    """The block at the offsets, with `fill` outside the array."""
    result = np.full(block, fill, array.dtype)
    for index in itertools.product(*(range(side) for side in block)):
        place = tuple(o + i for o, i in zip(offsets, index, strict=True))
        if all(0 <= p < side for p, side in zip(place, array.shape, strict=True)):
            result[index] = array[place]
    return result


def put(array: np.ndarray, offsets: Sequence[int], block: np.ndarray) -> None:
    for index in np.ndindex(*block.shape):
        place = tuple(o + i for o, i in zip(offsets, index, strict=True))
        if all(0 <= p < side for p, side in zip(place, array.shape, strict=True)):
            array[place] = block[index]


def listed(values: Sequence[Any]) -> str:
    return "(" + ", ".join(map(str, values)) + ",)"


def row_major(shape: Sequence[int]) -> list[int]:
    return [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]


def tile_store(block: Sequence[int]) -> str:
    """Code for `out + offsets` of a whole tile of this shape."""
    rank = len(block)
    parts = []
    for d, (side, step) in enumerate(zip(block, row_major(block), strict=True)):
        index = ", ".join(":" if i == d else "None" for i in range(rank))
        parts.append(f"kl.arange(0, {side})[{index}] * {step}")
    return "out + " + " + ".join(parts)


RANKS = [((50,), (24,)), ((11, 37), (6, 20)), ((3, 7, 20), (2, 5, 12)), ((3, 2, 7, 9), (1, 3, 4, 4)),
         ((2, 3, 4, 3, 11), (2, 1, 3, 2, 12))]  # fmt: skip


def places(shape: Sequence[int], block: Sequence[int]) -> list[list[int]]:
    """Offsets inside, across the end, before the start, far outside on either side, and random ones."""
    ends = [side - b // 2 for side, b in zip(shape, block, strict=True)]
    starts = [-(b // 2) - 1 for b in block]
    some = [[int(RNG.integers(-b, s + 2)) for s, b in zip(shape, block, strict=True)] for _ in range(4)]
    far = [[2**31 - 1] + [0] * (len(shape) - 1), [-(2**31)] + [0] * (len(shape) - 1)]
    last = [[0] * (len(shape) - 1) + [2**31 - 4], [0] * (len(shape) - 1) + [-(2**31)]]
    return [[0] * len(shape), ends, starts, *some, *far, *last]


@pytest.mark.parametrize("shape, block", RANKS)
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_loads_of_every_rank(shape, block, padding):
    x = RNG.standard_normal(shape).astype(F32)
    offsets = places(shape, block)
    where = np.array(offsets, np.int32)
    out = np.zeros((len(offsets), *block), F32)
    rank = len(shape)
    launch(
        f"""
        def kernel(x, out, where):
            d = kl.make_tensor_descriptor(x, {listed(shape)}, {listed(row_major(shape))}, {listed(block)}, "{padding}")
            place = kl.program_id(0)
            out += place * {int(np.prod(block))}
            at = where + place * {rank}
            value = d.load({listed([f"kl.load(at + {d})" for d in range(rank)])})
            kl.store({tile_store(block)}, value)
        """,
        x, out, where, grid=(len(offsets),),
    )  # fmt: skip
    fill = np.nan if padding == "nan" else 0
    for at, got in zip(offsets, out, strict=True):
        np.testing.assert_array_equal(got, window(x, at, block, fill), str(at))


@pytest.mark.parametrize("shape, block", RANKS)
def test_stores_of_every_rank(shape, block):
    for at in places(shape, block):
        out = RNG.standard_normal(shape).astype(F32)
        expected = out.copy()
        value = RNG.standard_normal(block).astype(F32)
        put(expected, at, value)
        launch(
            f"""
            def kernel(value, out):
                to = kl.make_tensor_descriptor(out, {listed(shape)}, {listed(row_major(shape))}, {listed(block)})
                value = kl.load({tile_store(block).replace("out", "value", 1)})
                to.store({listed(at)}, value)
            """,
            value, out,
        )  # fmt: skip
        np.testing.assert_array_equal(out, expected, str(at))


@pytest.mark.parametrize("shape, block", RANKS)
@pytest.mark.parametrize("op", ["add", "max", "xor"])
def test_atomics_of_every_rank(shape, block, op):
    """Two programs combine overlapping blocks, partly outside."""
    out = RNG.integers(0, 100, shape).astype(np.int32)
    value = RNG.integers(0, 100, block).astype(np.int32)
    expected = out.copy()
    apply = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor}[op]
    for pid in range(2):
        at = [pid * 2 - 1] * len(shape)
        put(expected, at, apply(window(expected, at, block), value))
    launch(
        f"""
        def kernel(value, out):
            to = kl.make_tensor_descriptor(out, {listed(shape)}, {listed(row_major(shape))}, {listed(block)})
            value = kl.load({tile_store(block).replace("out", "value", 1)})
            at = kl.program_id(0) * 2 - 1
            to.atomic_{op}({listed(["at"] * len(shape))}, value)
        """,
        value, out, grid=(2,),
    )  # fmt: skip
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "kind", ["int8", "uint16", "int64", "float16", "bfloat16", "float64", "float8e4nv", "float8e5"]
)
def test_every_type_is_copied_bit_by_bit(kind):
    ty = np.dtype(numpy_type(kind))
    x = RNG.integers(0, 256, (9, 56 * ty.itemsize)).astype(np.uint8).view(ty)
    out = np.zeros_like(x)
    launch(
        """
        def kernel(x, out):
            a = kl.make_tensor_descriptor(x, (9, 56), (56, 1), (4, 48))
            b = kl.make_tensor_descriptor(out, (9, 56), (56, 1), (4, 48))
            at = [kl.program_id(0) * 4, kl.program_id(1) * 48]
            b.store(at, a.load(at))
        """,
        x, out, grid=(3, 2),
    )  # fmt: skip
    np.testing.assert_array_equal(out.view(np.uint8), x.view(np.uint8))


def test_rows_may_be_padded():
    """Strides of a view: rows of 24 in a pitch of 40, and every other matrix."""
    memory = RNG.standard_normal((6, 10, 40)).astype(F32)
    out = np.full((6, 10, 40), 5, F32)
    launch(
        """
        def kernel(x, out):
            a = kl.make_tensor_descriptor(x + 3, (3, 10, 24), (800, 40, 1), (2, 4, 28))
            b = kl.make_tensor_descriptor(out + 3, (3, 10, 24), (800, 40, 1), (2, 4, 28))
            at = [kl.program_id(0) * 2, kl.program_id(1) * 4, 0]
            b.store(at, a.load(at) + 1)
        """,
        memory, out, grid=(2, 3),
    )  # fmt: skip
    expected = np.full_like(out, 5)
    expected[::2, :, 3:27] = memory[::2, :, 3:27] + 1
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "kind, m, n, k, blocks", [("float16", 60, 47, 40, (32, 40, 24)), ("float32", 20, 50, 70, (16, 48, 48))]
)
def test_loads_feed_products_in_any_order(kind, m, n, k, blocks):
    """A plain and transposed, times B plain and transposed: four ways to one product."""
    bm, bn, bk = blocks
    a, b = (RNG.standard_normal(s).astype(kind) for s in ((m, k), (k, n)))
    out = np.zeros((4, m, n), F32)
    launch(
        f"""
        def kernel(a, b, at, bt, out):
            A = kl.make_tensor_descriptor(a, ({m}, {k}), ({k}, 1), ({bm}, {bk}))
            B = kl.make_tensor_descriptor(b, ({k}, {n}), ({n}, 1), ({bk}, {bn}))
            AT = kl.make_tensor_descriptor(at, ({k}, {m}), ({m}, 1), ({bk}, {bm}))
            BT = kl.make_tensor_descriptor(bt, ({n}, {k}), ({k}, 1), ({bn}, {bk}))
            C = kl.make_tensor_descriptor(out, (4, {m}, {n}), ({m * n}, {n}, 1), (1, {bm}, {bn}))
            i, j = kl.program_id(0) * {bm}, kl.program_id(1) * {bn}
            for way in kl.static_range(4):
                acc = kl.zeros(({bm}, {bn}), kl.float32)
                for k in kl.range(0, {k}, {bk}, num_stages=2):
                    x = AT.load([k, i]).T if way & 1 else A.load([i, k])
                    y = kl.trans(BT.load([j, k])) if way & 2 else B.load([k, j])
                    acc = kl.dot(x, y, acc, input_precision="ieee")
                C.store([way, i, j], acc[None])
        """,
        a, b, a.T.copy(), b.T.copy(), out, grid=(-(-m // bm), -(-n // bn)),
    )  # fmt: skip
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for way in range(4):
        np.testing.assert_allclose(out[way], exact, rtol=0, atol=1e-4, err_msg=str(way))


def test_batches_are_loaded_as_matrices():
    """Rank-3 loads feed a rank-3 product; of rank-4 loads, sides of one are removed first."""
    x, y = RNG.standard_normal((4, 16, 24)).astype(F32), RNG.standard_normal((2, 3, 24, 40)).astype(F32)
    out = np.zeros((2, 16, 40), F32)
    launch(
        """
        def kernel(x, y, out):
            X = kl.make_tensor_descriptor(x, (4, 16, 24), (384, 24, 1), (2, 16, 24))
            Y = kl.make_tensor_descriptor(y, (2, 3, 24, 40), (2880, 960, 40, 1), (1, 2, 24, 40))
            C = kl.make_tensor_descriptor(out, (2, 16, 40), (640, 40, 1), (2, 16, 40))
            right = Y.load([1, 0, 0, 0]).reshape(2, 24, 40)
            C.store([0, 0, 0], kl.dot(X.load([1, 0, 0]), right, input_precision="ieee"))
        """,
        x, y, out,
    )  # fmt: skip
    np.testing.assert_allclose(out, x[1:3] @ y[1, :2], rtol=0, atol=1e-4)


def pitched(shape: Sequence[int], extra: int = 8) -> np.ndarray:
    """Numbers of this shape with padding between rows: only the last dimension is contiguous; strides are multiples of
    16 bytes."""
    memory = RNG.standard_normal((*shape[:-1], -(-shape[-1] // 4) * 4 + extra)).astype(F32)
    if len(shape) > 2:
        memory = np.concatenate([memory, memory + 1], axis=1)[:, : shape[1]]
    return memory[..., : shape[-1]]


@pytest.mark.parametrize("shape, block", RANKS)
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_of_the_host_load_in_every_rank(shape, block, padding):
    x = pitched(shape)
    assert len(shape) == 1 or not x.flags.c_contiguous
    offsets = places(shape, block)
    out = np.zeros((len(offsets), *block), F32)
    rank = len(shape)
    launch(
        f"""
        def kernel(d, out, where):
            place = kl.program_id(0)
            out += place * {int(np.prod(block))}
            at = where + place * {rank}
            kl.store({tile_store(block)}, d.load({listed([f"kl.load(at + {d})" for d in range(rank)])}))
        """,
        TensorDescriptor.from_tensor(x, list(block), padding=padding), out, np.array(offsets, np.int32),
        grid=(len(offsets),),
    )  # fmt: skip
    fill = np.nan if padding == "nan" else 0
    for at, got in zip(offsets, out, strict=True):
        np.testing.assert_array_equal(got, window(x, at, block, fill), str(at))


@pytest.mark.parametrize("shape, block", RANKS)
def test_descriptors_of_the_host_store_in_every_rank(shape, block):
    for at in places(shape, block):
        out = pitched(shape)
        memory = out.base if out.base is not None else out
        expected = memory.copy()
        inside = np.lib.stride_tricks.as_strided(expected, out.shape, out.strides)
        value = RNG.standard_normal(block).astype(F32)
        put(inside, at, value)
        launch(
            f"""
            def kernel(value, to):
                to.store({listed(at)}, kl.load({tile_store(block).replace("out", "value", 1)}))
            """,
            value, TensorDescriptor.from_tensor(out, list(block)),
        )  # fmt: skip
        np.testing.assert_array_equal(memory, expected, str(at))  # also checks the memory between the rows


def test_a_descriptor_of_the_host_may_be_empty():
    """A block of an empty array is padding, and stores to it are dropped."""
    for shape in ((0, 16), (8, 0)):
        x, out = np.zeros(shape, F32), np.ones((4, 8), F32)
        empty = TensorDescriptor(np.ones(64, F32), list(shape), [16, 1], [4, 8], padding="nan")
        launch(
            """
            def kernel(x, out):
                out.store([0, 0], x.load([0, 0]))
                x.store([0, 0], out.load([0, 0]))
            """,
            empty, TensorDescriptor.from_tensor(out, [4, 8]),
        )  # fmt: skip
        assert np.isnan(out).all() and (empty.base == 1).all() and x.size == 0


COMBINE = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
WORDS = ["int32", "uint32", "int64", "uint64"]
REDUCED = [(op, kind) for op in COMBINE for kind in WORDS] + [
    (op, kind) for op in ("add", "min", "max") for kind in ("float16", "bfloat16", "float32", "float64")
]


@pytest.mark.parametrize("op, kind", REDUCED)
def test_atomics_of_every_type_that_the_machine_reduces(op, kind):
    ty = numpy_type(kind)
    integer = kind in WORDS
    low = 0 if kind.startswith("u") or op in ("and", "or", "xor") else -8
    x, y = np.random.default_rng(5).integers(low, 9, (2, 3, 32)).astype(ty)
    if integer and kind.startswith("u") and op in ("min", "max"):
        x[1, 0] = np.iinfo(ty).max  # different from -1
    expected = COMBINE[op](x, y)
    # Rows and columns outside the array stay unchanged: the block is 4 by 32, at row 1 of 3.
    expected[0] = x[0]
    block = np.concatenate([y[1:], np.zeros((2, 32), ty)])
    source = f"""
    @jit
    def kernel(x_ptr, y_ptr):
        d = kl.make_tensor_descriptor(x_ptr, (3, 32), (32, 1), (4, 32))
        y = kl.load(y_ptr + kl.arange(0, 4)[:, None] * 32 + kl.arange(0, 32)[None, :])
        d.atomic_{op}([1, 0], y)
    """
    launch(source, x, block)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_pointer_atomics_of_floats_pass_over_nan(op, kind):
    ty = numpy_type(kind)
    x = np.array([1, -2, np.nan, 3] * 16).astype(ty)
    y = np.array([-1, np.nan, 4, 5] * 16).astype(ty)
    old = np.zeros_like(x)
    source = f"""
    @jit
    def kernel(x, y, old):
        at = kl.arange(0, 64)
        kl.store(old + at, kl.atomic_{op}(x + at, kl.load(y + at), mask=at < 60))
    """
    expected = np.array(([1, -2, 4, 5] if op == "max" else [-1, -2, 4, 3]) * 16).astype(ty)
    before = x.copy()
    launch(source, x, y, old)
    np.testing.assert_array_equal(x[:60].astype(F32), expected[:60].astype(F32))
    np.testing.assert_array_equal(x[60:].astype(F32), before[60:].astype(F32))
    np.testing.assert_array_equal(old[:60].astype(F32), before[:60].astype(F32))

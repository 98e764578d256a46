"""Loads, stores, block pointers, descriptors and atomics on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from running import launch, numpy_type

F32 = np.float32
RNG = np.random.default_rng(11)


def test_masked_elements_read_other_and_are_not_written():
    x, out = np.arange(16, dtype=F32), np.full(16, -1, F32)
    source = """
    def kernel(x, out, n):
        i = kl.arange(0, 16)
        kl.store(out + i, kl.load(x + i, mask=i < n, other=7), mask=i < 12)
    """
    launch(source, x, out, 9)
    np.testing.assert_array_equal(out, [*range(9), 7, 7, 7, -1, -1, -1, -1])


@pytest.mark.parametrize("kind", ["int1", "int8", "uint16", "int64", "float16", "bfloat16", "float8e5", "float64"])
def test_every_type_is_copied_bit_by_bit(kind):
    ty = np.dtype(numpy_type(kind))
    raw = RNG.integers(0, 2 if kind == "int1" else 256, 96 * ty.itemsize).astype(np.uint8)
    x, out = raw.view(ty), np.zeros(96, ty)
    launch("def kernel(x, out):\n    i = kl.arange(0, 96)\n    kl.store(out + i, kl.load(x + i))", x, out)
    np.testing.assert_array_equal(out.view(np.uint8), raw)


def test_strides_gathers_and_negative_offsets():
    x, out = RNG.standard_normal(256).astype(F32), np.zeros((8, 16), F32)
    source = """
    def kernel(x, out):
        i = kl.arange(0, 8)[:, None]
        j = kl.arange(0, 16)[None, :]
        kl.store(out + i * 16 + j, kl.load(x + 200 - i * 16 - j * 2))
    """
    launch(source, x, out)
    i, j = np.ogrid[:8, :16]
    np.testing.assert_array_equal(out, x[200 - i * 16 - j * 2])


def test_scalars_and_broadcasting():
    x, out = np.array([3, 4], F32), np.zeros((4, 8), F32)
    source = """
    def kernel(x, out):
        i = kl.arange(0, 4)[:, None] * 8 + kl.arange(0, 8)[None, :]
        kl.store(out + i, kl.arange(0, 8)[None, :])
        kl.store(out, kl.load(x) + kl.load(x + 1))
    """
    launch(source, x, out)
    expected = np.broadcast_to(np.arange(8, dtype=F32), (4, 8)).copy()
    expected[0, 0] = 7
    np.testing.assert_array_equal(out, expected)


@pytest.mark.cpu  # addresses of the host, in memory
def test_pointers_in_memory():
    x, y = np.arange(8, dtype=F32), np.arange(8, dtype=F32) + 100
    table, out = np.array([y.ctypes.data, x.ctypes.data], np.int64), np.zeros((2, 8), F32)
    source = """
    def kernel(table, out):
        p = kl.load(table + kl.program_id(0)).to(kl.pointer_type(kl.float32))
        i = kl.arange(0, 8)
        kl.store(out + kl.program_id(0) * 8 + i, kl.load(p + i))
    """
    launch(source, table, out, grid=(2,))
    np.testing.assert_array_equal(out, [y, x])


BLOCKS = """
def kernel(x, out, m, n):
    p = kl.make_block_ptr(x, (m, n), (n, 1), (kl.program_id(0) * 4, 0), (4, 8), (1, 0))
    total = kl.zeros((4,), kl.float32)
    for j in range(0, n, 8):
        total += kl.sum(kl.load(p, boundary_check=(0, 1), padding_option="zero"), 1)
        p = kl.advance(p, (0, 8))
    i = kl.program_id(0) * 4 + kl.arange(0, 4)
    kl.store(out + i, total, mask=i < m)
"""


def test_block_pointers_stay_inside_the_array():
    x = RNG.integers(-9, 9, (10, 21)).astype(F32)
    out = np.zeros(10, F32)
    launch(BLOCKS, x, out, 10, 21, grid=(3,))
    np.testing.assert_array_equal(out, x.sum(1))


def test_block_pointers_pad_with_nan_and_store_only_inside():
    x, out = np.arange(15, dtype=F32).reshape(3, 5), np.full((3, 5), -1, F32)
    padded = np.zeros((4, 8), F32)
    source = """
    def kernel(x, out, padded):
        p = kl.make_block_ptr(x, (3, 5), (5, 1), (0, 0), (4, 8), (1, 0))
        q = kl.make_block_ptr(out, (3, 5), (5, 1), (1, 2), (4, 8), (1, 0))
        r = kl.make_block_ptr(padded, (4, 8), (8, 1), (0, 0), (4, 8), (1, 0))
        v = kl.load(p, boundary_check=(0, 1), padding_option="nan")
        kl.store(r, v)
        kl.store(q, v, boundary_check=(0, 1))
    """
    launch(source, x, out, padded)
    expected = np.full((4, 8), np.nan, F32)
    expected[:3, :5] = x
    np.testing.assert_array_equal(padded, expected)
    inside = np.full((3, 5), -1, F32)
    inside[1:, 2:] = x[:2, :3]
    np.testing.assert_array_equal(out, inside)


def test_descriptors_read_padding_and_write_inside():
    x, out = RNG.standard_normal((10, 20)).astype(F32), np.zeros((10, 20), F32)
    source = """
    def kernel(x, out, m, n):
        d = kl.make_tensor_descriptor(x, (m, n), (n, 1), (4, 8))
        e = kl.make_tensor_descriptor(out, [m, n], [n, 1], [4, 8])
        row, column = kl.program_id(0) * 4, kl.program_id(1) * 8
        e.store([row, column], d.load([row, column]) * 2 + d.load([row + 100, column]))
    """
    launch(source, x, out, 10, 20, grid=(3, 3))
    np.testing.assert_array_equal(out, x * 2)


def test_descriptor_atomics_gather_and_scatter():
    x = RNG.integers(0, 100, (16, 24)).astype(np.int32)
    total, picked, spread = np.zeros((5, 8), np.int32), np.zeros((8, 8), np.int32), np.zeros((16, 24), np.int32)
    source = """
    def kernel(x, total, picked, spread):
        d = kl.make_tensor_descriptor(x, (16, 24), (24, 1), (1, 8))
        t = kl.make_tensor_descriptor(total, (5, 8), (8, 1), (4, 8))
        t.atomic_add([kl.program_id(0) * 4, 0], kl.full((4, 8), 3, kl.int32))
        t.atomic_max([0, 0], kl.full((4, 8), 5, kl.int32))
        rows = kl.arange(0, 8) * 3
        v = d.gather(rows, 16)
        i = kl.arange(0, 8)[:, None] * 8 + kl.arange(0, 8)[None, :]
        kl.store(picked + i, v)
        s = kl.make_tensor_descriptor(spread, (16, 24), (24, 1), (1, 8))
        s.scatter(v, rows, 8)
    """
    launch(source, x, total, picked, spread, grid=(2,))
    assert np.all(total[:4] >= 5) and np.all(total[4] == 3)
    expected = np.zeros((8, 8), np.int32)
    expected[:6] = x[:16:3, 16:24]
    np.testing.assert_array_equal(picked, expected)
    np.testing.assert_array_equal(spread[:16:3, 8:16], expected[:6])
    assert not spread[1].any() and not spread[:, :8].any()


@pytest.mark.parametrize("kind", ["int32", "int64", "float32", "float64", "float16", "bfloat16"])
def test_atomic_add_from_many_instances(kind):
    ty = numpy_type(kind)
    out = np.zeros(8, ty)
    launch("def kernel(out):\n    kl.atomic_add(out + kl.arange(0, 8), 1)", out, grid=(100,))
    np.testing.assert_array_equal(out.astype(np.float64), np.full(8, 100.0))


@pytest.mark.parametrize(
    "name, kind, start, value, result",
    [
        ("max", "int32", 5, 9, 9), ("max", "uint32", 5, 2**31 + 1, 2**31 + 1), ("min", "int32", 5, -9, -9),
        ("max", "float32", -2.5, -1.5, -1.5), ("min", "float32", -2.5, -3.5, -3.5), ("min", "float64", 2.0, 1.0, 1.0),
        ("and", "int32", 12, 10, 8), ("or", "int64", 12, 10, 14), ("xor", "uint32", 12, 10, 6),
        ("xchg", "float32", 1.0, 2.0, 2.0), ("add", "uint64", 1, 2, 3),
    ],
)  # fmt: skip
def test_atomics_return_the_old_value(name, kind, start, value, result):
    ty = numpy_type(kind)
    out, old, v = np.full(4, start, ty), np.zeros(4, ty), np.full(4, value, ty)
    source = f"""
    def kernel(out, old, v):
        i = kl.arange(0, 4)
        kl.store(old + i, kl.atomic_{name}(out + i, kl.load(v + i), mask=i < 3))
    """
    launch(source, out, old, v)
    np.testing.assert_array_equal(out, np.array([result] * 3 + [start], ty))
    np.testing.assert_array_equal(old[:3], np.array([start] * 3, ty))


def test_compare_and_swap_makes_a_lock():
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int64)
    source = """
    def kernel(lock, count):
        while kl.atomic_cas(lock, 0, 1) == 1:
            pass
        kl.store(count, kl.load(count) + 1)
        kl.atomic_xchg(lock, 0)
    """
    launch(source, lock, count, grid=(200,))
    assert count[0] == 200 and lock[0] == 0


def test_compare_and_swap_of_tiles():
    x, old = np.array([0, 1, 0, 2], np.int32), np.zeros(4, np.int32)
    source = """
    def kernel(x, old):
        i = kl.arange(0, 4)
        kl.store(old + i, kl.atomic_cas(x + i, 0, i + 10))
    """
    launch(source, x, old)
    np.testing.assert_array_equal(x, [10, 1, 12, 2])
    np.testing.assert_array_equal(old, [0, 1, 0, 2])

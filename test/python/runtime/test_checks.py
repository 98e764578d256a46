"""What a running kernel reports: prints, assertions, accesses out of bounds, races."""

from __future__ import annotations

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, knobs


@kiln.jit
def show(x, n, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.device_print("x", kl.load(x + kl.program_id(0) * BLOCK + i))
    kl.device_print("n: ", n)


@pytest.mark.parametrize("threads", [1, 4])
def test_prints_come_in_program_order(capsys, threads):
    with knobs.scope(num_threads=threads):
        show[2](np.array([0.5, 1, -2, np.inf], np.float32), 7, 2)
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) idx (0) x: 0.5",
        "pid (0, 0, 0) idx (1) x: 1.0",
        "pid (0, 0, 0) n: 7",
        "pid (1, 0, 0) idx (0) x: -2.0",
        "pid (1, 0, 0) idx (1) x: inf",
        "pid (1, 0, 0) n: 7",
    ]


def test_prints_in_hex_and_of_several_operands(capsys):
    @kiln.jit
    def kernel(x):
        kl.device_print("v", kl.load(x), 5, hex=True)

    kernel[1](np.array([255], np.uint8))
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) v: 0xff (operand 0)",
        "pid (0, 0, 0) v: 0x00000005 (operand 1)",
    ]


@kiln.jit
def positive(x, out, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + i)
    kl.device_assert(value > 0, "must be positive")
    kl.store(out + i, value)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failed_assertion_names_program_and_coordinate(threads):
    x = np.ones(64 * 16, np.float32)
    x[16 * 5 + 3] = x[16 * 40] = -1
    with knobs.scope(num_threads=threads):
        for _ in range(5):
            with pytest.raises(errors.DeviceAssertError) as caught:
                positive[64](x, np.zeros_like(x), 16)
            error = caught.value
            assert error.program == (5, 0, 0) and error.coordinate == (3,)
            assert error.message == "must be positive" and error.kernel == "positive"
            assert 'kl.device_assert(value > 0, "must be positive")' in str(error)
    out = np.zeros_like(x)
    positive[5](x, out, 16)
    assert out[:80].all(), "the process goes on"


def test_assertions_can_be_switched_off():
    x = np.full(16, -1, np.float32)
    out = np.zeros_like(x)
    with knobs.scope(device_assert=False):
        positive[1](x, out, 16)
    assert (out == -1).all()


@kiln.jit
def shift(x, out, by, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + i + by))


@pytest.mark.cpu
def test_bounds_name_line_program_coordinate_and_buffer():
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    with knobs.scope(check="bounds"):
        shift[1](x, out, 0, 32)
        np.testing.assert_array_equal(out, x)
        with pytest.raises(errors.OutOfBoundsError) as caught:
            shift[1](x, out, 5, 32)
    error = caught.value
    assert error.program == (0, 0, 0) and error.coordinate == (27,)
    text = str(error)
    assert "load of 4 bytes at address" in text and "kl.load(x + i + by)" in text
    assert "nearest buffer is argument 'x'" in text and "4 bytes past the end of it" in text


@pytest.mark.cpu
def test_bounds_ignore_masked_lanes():
    @kiln.jit
    def masked(x, out, n, BLOCK: kl.constexpr):
        i = kl.arange(0, BLOCK)
        kl.store(out + i, kl.load(x + i, mask=i < n), mask=i < n)

    base = np.arange(100, dtype=np.float32)
    out = np.zeros(10, np.float32)
    with knobs.scope(check="bounds"):
        masked[1](base[90:], out, 10, 64)
    np.testing.assert_array_equal(out, base[90:])


@kiln.jit
def stride(x, out, start, step, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + start + i * step))


@pytest.mark.cpu
def test_bounds_are_the_views():
    base, out = np.arange(200, dtype=np.float32), np.zeros(32, np.float32)
    columns = base.reshape(10, 20)[2:6, 3:5]
    with knobs.scope(check="bounds"):
        for view, start, step in [(base[128:64:-1], 0, -1), (base[128:64:-2], 0, -2), (base[64:128], 32, 1),
                                  (columns.T, 0, 1)]:  # fmt: skip
            stride[1](view, out, start, step, 32)
        # Element 129; one before the view; one past it; between its first element and that of the array.
        for view, start, step in [(base[128:64:-1], 1, -1), (base[128:96:-1], -1, -1), (base[64:128], 33, 1),
                                  (columns, -1, 1)]:  # fmt: skip
            with pytest.raises(errors.OutOfBoundsError, match="argument 'x'"):
                stride[1](view, out, start, step, 32)


@pytest.mark.cpu
@pytest.mark.parametrize("index,axis", [(64, 1), (-1, 1), (4, 0), (1 << 31, 0)])
def test_bounds_find_an_index_out_of_a_tile(index, axis):
    @kiln.jit
    def gather(indices, out, AXIS: kl.constexpr):
        i, j = kl.arange(0, 4)[:, None], kl.arange(0, 64)[None, :]
        tile = i * 64 + j
        kl.store(out + tile, kl.gather(tile, kl.load(indices + tile), AXIS))

    indices, out = np.ones((4, 64), np.int64), np.zeros((4, 64), np.int32)
    with knobs.scope(check="bounds"):
        gather[1](indices, out, axis)
        indices[2, 5] = index
        with pytest.raises(errors.OutOfBoundsError) as caught:
            gather[1](indices, out, axis)
    assert caught.value.coordinate == (2, 5)
    assert f"index {index} is outside of an axis of {(4, 64)[axis]} elements" in str(caught.value)


@pytest.mark.cpu
def test_races_find_two_elements_of_one_store():
    @kiln.jit
    def kernel(x, n, BY: kl.constexpr):
        i = kl.arange(0, 16)
        for _ in range(3):  # a different store each time
            kl.store(x + (i * BY) % n, i)
        kl.store(x + i * 0, i, mask=i == 5)

    x = np.zeros(64, np.int32)
    with knobs.scope(check="races"):
        kernel[1](x, 64, 1)
        kernel[1](x, 64, 4)
        with pytest.raises(errors.RaceError) as caught:
            kernel[1](x, 20, 4)
    assert caught.value.coordinate == (5,)
    text = str(caught.value)
    assert "race within a store" in text and "that of tile coordinate (0) has the same address" in text


@pytest.mark.cpu
def test_bounds_refuse_stores_to_read_only_arrays():
    """Through a pointer known only at run time; where the code shows which argument it writes, the launch refuses."""
    frozen = np.zeros(32, np.float32)
    frozen.flags.writeable = False

    @kiln.jit
    def keep(addresses, x):
        kl.store(kl.load(addresses).to(kl.pointer_type(kl.float32)), kl.load(x) + 1.0)

    with knobs.scope(check="bounds"), pytest.raises(errors.OutOfBoundsError, match="read-only"):
        keep[1](np.array([frozen.ctypes.data]), frozen)


@kiln.jit
def accumulate(x, total, ATOMIC: kl.constexpr):
    value = kl.load(x + kl.program_id(0))
    if ATOMIC:
        kl.atomic_add(total, value)
    else:
        kl.store(total, kl.load(total) + value)


@pytest.mark.cpu
def test_races_are_found_and_atomics_do_not_race():
    x, total = np.ones(8, np.float32), np.zeros(1, np.float32)
    with knobs.scope(check="races"):
        accumulate[8](x, total, True)
        assert total[0] == 8
        for _ in range(3):
            with pytest.raises(errors.RaceError) as caught:
                accumulate[8](x, total, False)
            text = str(caught.value)
            assert caught.value.program == (1, 0, 0)
            assert "races with the store of program (0, 0, 0)" in text
            assert "kl.store(total, kl.load(total) + value)" in text and "argument 'total'" in text


@pytest.mark.cpu
def test_checked_code_is_separate_from_plain_code():
    x, out = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    with knobs.scope(check="bounds"):
        checked = shift[1](x, out, 16, 32)
    assert shift[1](x, out, 16, 32) is not checked


@kiln.jit
def promised(x, n):
    kl.assume(n % 4 == 0)
    kl.store(x, n)


@pytest.mark.cpu
@pytest.mark.parametrize("check", ["bounds", "races"])
def test_a_promise_is_checked_with_the_accesses(check):
    x = np.zeros(1, np.int32)
    with knobs.scope(check=check):
        promised[1](x, 8)
        with pytest.raises(errors.DeviceAssertError, match=r"test_checks.py.*promise of kl.assume does not hold"):
            promised[1](x, 7)
    assert x == 8
    promised[1](x, 7)
    assert x == 7

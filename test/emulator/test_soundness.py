"""What a launch guarantees whatever goes wrong: a failed assertion ends it with a report, and a wait for another
program ends once that program has done its part."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors


@kiln.jit
def _checked_sum(x, y, limit, BLOCK: kl.constexpr):
    value = kl.load(x + kl.program_id(0) * BLOCK + kl.arange(0, BLOCK))
    kl.device_assert(value < limit, "too large")
    kl.store(y + kl.program_id(0), kl.sum(value, axis=0))


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_failed_assertion_ends_the_launch(launched, cluster):
    """The other threads wait for what the failed thread should send; later programs run too."""
    x = np.ones(2 * 8192, np.float32)
    x[5000] = 7

    def launch():
        y = np.zeros(2, np.float32)
        with pytest.raises(errors.DeviceAssertError) as caught:
            _checked_sum[(2,)](x, y, 2.0, BLOCK=8192, num_warps=8, cluster=cluster)
        assert "too large" in str(caught.value)
        assert caught.value.program == (0, 0, 0) and caught.value.coordinate == (5000,)
        assert y[1] == 8192

    launched(launch)
    kiln.synchronize()  # reported once


@kiln.jit
def _gather(table, index, y, size, BLOCK: kl.constexpr):
    place = kl.load(index + kl.arange(0, BLOCK))
    kl.device_assert(place < size, "no such row")
    value = kl.load(table + place)
    kl.store(y + kl.arange(0, BLOCK), value)
    kl.store(y + BLOCK, kl.sum(value, axis=0))


@pytest.mark.parametrize("cluster", [1, 4])
def test_nothing_is_read_after_a_failed_assertion(launched, cluster):
    """The emulator faults on an address outside every array, which would cost a GPU its context."""
    table, index = np.arange(1, 5, dtype=np.float32), np.zeros(1024, np.int32)
    index[17] = 1 << 28

    def launch():
        y = np.full(1025, -1, np.float32)
        with pytest.raises(errors.DeviceAssertError):
            _gather[(1,)](table, index, y, 4, BLOCK=1024, num_warps=4, cluster=cluster)
        assert y[17] == -1 and y[100] == 1

    launched(launch)


@kiln.jit
def _checked_product(a, b, c, n, refused, limit, M: kl.constexpr, K: kl.constexpr):
    a_blocks = kl.make_tensor_descriptor(a, [n, n], [n, 1], [M, K])
    b_blocks = kl.make_tensor_descriptor(b, [n, n], [n, 1], [K, 64])
    c_blocks = kl.make_tensor_descriptor(c, [n, n], [n, 1], [M, 64])
    row, column = kl.program_id(0) * M, kl.program_id(1) * 64
    kl.device_assert(kl.program_id(0) * 2 + kl.program_id(1) != refused, "refused")
    total = kl.zeros((M, 64), kl.float32)
    for k in range(0, n, K):
        total = kl.dot(a_blocks.load([row, k]), b_blocks.load([k, column]), total)
    kl.device_assert(total < limit, "too large")
    c_blocks.store([row, column], total.to(kl.float16))


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("refused, limit, said", [(3, 1e9, "refused"), (-1, 200.0, "too large"), (-1, 1e9, None)])
def test_an_assertion_in_a_role_ends_the_launch(launched, emulated, cluster, refused, limit, said):
    """A consumer fails: its producer and the other CTA still end."""
    a, b = np.zeros((128 * cluster, 128 * cluster), np.float16), np.eye(128 * cluster, dtype=np.float16)
    n, rows = len(a), 64 * cluster
    a[rows + 5, 70] = 300

    def launch():
        c = np.zeros((n, n), np.float16)
        grid = (2, 2 * cluster)
        emulated.used.clear()
        if said is None:
            _checked_product[grid](a, b, c, n, refused, limit, M=rows, K=64, cluster=cluster)
            kiln.synchronize()
            assert (c == a).all()
        else:
            with pytest.raises(errors.DeviceAssertError, match=said) as caught:
                _checked_product[grid](a, b, c, n, refused, limit, M=rows, K=64, cluster=cluster)
            assert caught.value.program == (1, 1, 0)
        assert "wgmma" in emulated.used and "setmaxnreg" not in emulated.used

    launched(launch)


@kiln.jit
def _waits(flag, x, y, BLOCK: kl.constexpr, MEETS: kl.constexpr):
    value = kl.load(x + kl.arange(0, BLOCK))
    total = kl.sum(value, axis=0)
    while kl.load(flag) == 0:
        if MEETS:
            total = kl.maximum(total, kl.sum(value, axis=0))
    kl.store(y, total)


@pytest.mark.parametrize("turn", [1, 2, 3, 6, 30])
@pytest.mark.parametrize("meets", [False, True], ids=["", "meets"])
@pytest.mark.parametrize("options", [{"num_warps": 1}, {"num_warps": 4}, {"num_warps": 2, "cluster": 2}], ids=str)
def test_a_wait_for_another_program_ends_for_all_threads_together(launched, emulated, options, meets, turn):
    """The other program writes the flag when some warps have already read it and others have not."""
    x = np.ones(256, np.float32)

    def launch():
        flag, y = np.zeros(1, np.int32), np.zeros(1, np.float32)
        with emulated.meanwhile(turn, 1):
            _waits[(1,)](flag, x, y, BLOCK=256, MEETS=meets, **options)
        assert y[0] == 256

    launched(launch)


@kiln.jit
def _sums(times, x, y, BLOCK: kl.constexpr):
    value = kl.load(x + kl.arange(0, BLOCK))
    total = 0.0
    for _ in range(kl.load(times)):
        total += kl.sum(value + total, axis=0)
    kl.store(y, total)
    kl.store(times + 1, 1)  # the array is written, even if not here


@pytest.mark.parametrize("turn", [2, 3, 4])
def test_threads_agree_how_often_a_loop_runs(launched, emulated, turn):
    """Another program changes the count while warps read it: all of them must use the same value."""
    x = np.ones(256, np.float32)

    def launch():
        times, y = np.ones(2, np.int32), np.zeros(1, np.float32)
        with emulated.meanwhile(turn, 2):
            _sums[(1,)](times, x, y, BLOCK=256, num_warps=4)
        assert y[0] in (256, 256 + 256 * 257), y[0]

    launched(launch)


@kiln.jit
def _looks(flags, x, y, BLOCK: kl.constexpr, N: kl.constexpr, DESCRIBED: kl.constexpr):
    value = kl.load(x + kl.arange(0, BLOCK))
    total = kl.sum(value, axis=0)
    kl.store(flags + N, 1)  # the array is written, even if not here
    if DESCRIBED:
        seen = kl.make_tensor_descriptor(flags, [N], [1], [N]).load([0])
    else:
        seen = kl.load(flags + kl.arange(0, N))
    if kl.max(seen, axis=0) == 0:
        total = kl.sum(kl.minimum(value, total), axis=0)
        kl.store(y, total)
    else:
        kl.store(y + 1, total)
        total = kl.max(value, axis=0)
    kl.store(y + 2, kl.sum(kl.minimum(value, total), axis=0))


@pytest.mark.parametrize("described", [False, True], ids=["pointers", "descriptor"])
@pytest.mark.parametrize("turn", range(6, 16))
def test_threads_agree_on_a_tile_that_decides(launched, emulated, turn, described):
    """Each warp holds all flags and reduces them itself: another program writes a flag when only some have read it."""
    x = np.ones(4096, np.float32)

    def launch():
        flags, y = np.zeros(8, np.int32), np.zeros(3, np.float32)
        with emulated.meanwhile(turn, 1):
            _looks[(1,)](flags, x, y, BLOCK=4096, N=4, DESCRIBED=described, num_warps=4)
        assert y.tolist() in ([4096, 0, 4096], [0, 4096, 4096])

    launched(launch)

"""Counted loops with bounds near the ends of their type run as often as Python's.

A counter that wraps would go on for ever; the assertion in each body ends such a loop.
"""

import kiln
import kiln.language as kl
import numpy as np
import pytest

END = 1 << 31
RANGES = [
    (END - 48, END - 1, 64), (0, END - 1, 1 << 28), (-END, END - 1, 1 << 28), (END - 100, END - 1, 10),
    (-END, -END + 5, 64), (5, -END, 7), (-END, END - 1, 3 << 28), (-3, 7, 2),
    (END - 1, -10, -(1 << 28)), (END - 1, -END, -(1 << 28)), (-END, 5, -5), (END - 1, END - 1000, -100),
    (-END + 3, -END, -1), (END - 1, -END, -(END - 1)), (3, 3, 5),
]  # fmt: skip


@kiln.jit
def count(out, start, stop, STEP: kl.constexpr):
    times = 0
    for _ in range(start, stop, STEP):
        kl.device_assert(times < 100, "the loop does not end")
        times += 1
    kl.store(out, times)


@kiln.jit
def count_unrolled(out, start, stop, STEP: kl.constexpr):
    times = 0
    for _ in kl.range(start, stop, STEP, loop_unroll_factor=3):
        kl.device_assert(times < 100, "the loop does not end")
        times += 1
    kl.store(out, times)


@kiln.jit
def count_by_argument(out, start, stop, step):
    times = 0
    for _ in range(start, stop, step):
        kl.device_assert(times < 100, "the loop does not end")
        times += 1
    kl.store(out, times)


@kiln.jit
def count_until(out, start, stop, STEP: kl.constexpr):
    times, last = 0, -7
    for i in range(start, stop, STEP):
        kl.device_assert(times < 100, "the loop does not end")
        if times == 90:
            break
        times += 1
        last = i
    kl.store(out, times)
    kl.store(out + 1, last)
    kl.store(out + 2, i)


@pytest.mark.parametrize("bounds", RANGES, ids=str)
@pytest.mark.parametrize("kernel", [count, count_unrolled, count_by_argument])
def test_a_counter_never_wraps(kernel, bounds):
    out = np.full(1, -1, np.int32)
    kernel[(1,)](out, *bounds)
    assert out[0] == len(range(*bounds))


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_a_loop_with_a_break_ends_by_itself_too(bounds):
    """It leaves the index of its last iteration, which is not the number it compared last."""
    out = np.full(3, -1, np.int32)
    count_until[(1,)](out, *bounds)
    steps = range(*bounds)
    assert out.tolist() == [len(steps), *((steps[-1], steps[-1]) if steps else (-7, 0))]

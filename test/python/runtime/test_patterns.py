"""Calls similar to earlier ones are launched without a full reading of their arguments; they run the same code on the
same values as with a full reading. `prepare` always reads in full."""

import gc
import os
import random
import weakref
from collections import namedtuple
from typing import Any

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import hooks, knobs
from kiln.runtime import jit

pytestmark = pytest.mark.cpu  # numpy arrays are launched there


def make_kernel():
    @kiln.jit(do_not_specialize=["plain"])
    def kernel(x, y, n, plain, scale, flag, limit: kl.float64, BLOCK: kl.constexpr, WHAT: kl.constexpr = "add"):
        at = kl.arange(0, BLOCK)
        value = kl.load(x + at).to(kl.float64) + n.to(kl.float64) * 2 + plain.to(kl.float64) * 3 + scale + limit
        if WHAT == "add":
            value += flag.to(kl.float64)
        kl.store(y + at, value)

    return kernel


def launched(kernel):
    return kernel._launcher.recognised


def expected(x, n, plain, scale, flag, limit, what):
    return x + n * 2.0 + plain * 3.0 + np.float32(scale) + limit + (flag if what == "add" else 0)


def test_a_call_like_an_earlier_one_is_recognised():
    kernel = make_kernel()
    x, y = np.arange(64.0), np.zeros(64)
    for n in range(5, 15):
        kernel[(1,)](x, y, n, n + 1, n / 2, False, 1.5, BLOCK=4)
    assert launched(kernel) == 10 - 2  # the first call compiles, the second finds its code
    assert (y[:4] == expected(x, 14, 15, 7.0, False, 1.5, "add")[:4]).all()


INTEGERS = [5, 6, 7, -3, 2**31 - 1, 1, 16, 48, 0, 2**31, np.int32(7), True]
MEMORY = np.zeros(400)
CHOICES = {
    "x": [MEMORY[:64], MEMORY[2:66], MEMORY[1:65]],
    "y": [MEMORY[200:264], np.zeros(64), MEMORY[4:68]],
    "n": INTEGERS,
    "plain": INTEGERS,
    "scale": [0.5, -0.0, 1e3, np.float32(2)],
    "flag": [True, False],
    "limit": [2.25, 3.0, 4],
    "BLOCK": [4, 8, kl.constexpr(4)],
    "WHAT": ["add", "none", "".join(["ad", "d"])],
}
GRIDS = [(1,), 1, (1, 1), lambda meta: (int(meta["BLOCK"] // int(meta["BLOCK"])),)]


@pytest.mark.parametrize("seed", range(int(os.environ.get("KILN_TEST_PATTERNS", "1"))))
def test_fast_launches_run_what_a_full_reading_finds(seed):
    """At most one thing changes from one call to the next."""
    choose = random.Random(seed)
    kernel = make_kernel()
    now = {name: values[0] for name, values in CHOICES.items()}
    compiled = set()
    for _ in range(250):
        if choose.random() < 0.7:
            name = choose.choice([*CHOICES, "n", "plain", "scale", "flag"])
            now[name] = choose.choice(CHOICES[name]) if choose.random() < 0.5 else CHOICES[name][0]
        MEMORY[:] = np.arange(400) + 7
        grid, by_place = choose.choice(GRIDS), choose.choice([2, 7])
        values = list(now.values())[:by_place]
        named = dict(list(now.items())[by_place:])
        x, n, plain, scale, flag, limit, block, what = (now[name] for name in CHOICES if name != "y")
        want = expected(x[: int(block)].copy(), int(n), int(plain), scale, flag, limit, what)
        ran = kernel[grid](*values, **named)
        assert (now["y"][: int(block)] == want).all()
        assert ran is kernel.prepare(*values, grid=grid, **named).compiled
        compiled.add(ran)
    assert len(compiled) > 10 and launched(kernel) > 100


def test_overlap_is_noticed():
    @kiln.jit
    def shift(x, y, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(y + at, kl.load(x + at) + 1.0)

    data, other = np.zeros(128), np.zeros(64)
    apart = [shift[(1,)](data[:64], other, BLOCK=64) for _ in range(4)]
    assert launched(shift) == 2 and len(set(apart)) == 1
    data[:] = np.arange(128)
    want = data[:64] + 1
    assert shift[(1,)](data[:64], data[2:66], BLOCK=64) is not apart[0]  # 16 bytes further: the same alignment
    assert (data[2:66] == want).all()


Named = namedtuple("Named", "data rows")


@kiln.struct
class Pair:
    data: Any
    rows: Any
    WIDE: kl.constexpr


def test_tuples_and_structs():
    """Field by field: another class, other constants or other lengths make a different call."""

    @kiln.jit
    def add(pair, x, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(x + at, kl.load(pair[0] + at) + pair[1], mask=at < BLOCK)

    base, x, compiled = np.arange(100.0), np.zeros(64), set()
    for turn in range(120):
        data = base[turn // 3 % 3 :][:64]
        rows = (5, 6, 7, 1, 16, 2**40, None)[0 if turn % 4 else turn // 4 % 6]
        pair = (Pair(data, rows, turn % 8 == 7), Named(data, rows), (data, rows), (data, rows, 3))[turn // 30]
        ran = add[(1,)](pair, x, BLOCK=8)
        assert (x[:8] == data[:8] + rows).all()
        assert ran is add.prepare(pair, x, grid=(1,), BLOCK=8).compiled
        compiled.add(ran)
    assert len(compiled) > 12 and launched(add) > 50
    with pytest.raises(kiln.errors.KilnError):
        add[(1,)]((base,), x, BLOCK=8)


def test_read_only_arrays_are_refused():
    kernel = make_kernel()
    x, y = np.zeros(64), np.zeros(64)
    for _ in range(4):
        kernel[(1,)](x, y, 5, 6, 0.5, True, 1.0, BLOCK=4)
    assert launched(kernel) == 2
    x.flags.writeable = False
    kernel[(1,)](x, y, 5, 6, 0.5, True, 1.0, BLOCK=4)
    y.flags.writeable = False
    with pytest.raises(kiln.errors.LaunchError, match="may be written"):
        kernel[(1,)](x, y, 5, 6, 0.5, True, 1.0, BLOCK=4)


OFFSET = 1.0


def test_changes_of_what_code_depends_on_are_noticed(monkeypatch):
    @kiln.jit
    def add(x, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(x + at, kl.load(x + at) + OFFSET)

    monkeypatch.setitem(globals(), "OFFSET", kl.constexpr(1.0))
    x = np.zeros(8)
    first = [add[(1,)](x, BLOCK=8) for _ in range(4)][-1]
    assert (x == 4).all() and launched(add) == 2
    monkeypatch.setitem(globals(), "OFFSET", kl.constexpr(10.0))
    add[(1,)](x, BLOCK=8)
    assert (x == 14).all()
    monkeypatch.setitem(globals(), "OFFSET", kl.constexpr(1.0))
    add[(1,)](x, BLOCK=8)
    with knobs.scope(check="bounds"), pytest.raises(kiln.errors.OutOfBoundsError):
        add[(1,)](x[:4], BLOCK=16)
    add.unload()
    assert add[(1,)](x, BLOCK=8) is not first


def test_warmup_is_no_launch():
    @kiln.jit
    def add(x, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(x + at, kl.load(x + at) + 1.0)

    x = np.zeros(8)
    for _ in range(4):
        add[(1,)](x, BLOCK=8, warmup=False)
    add[(1,)](x, BLOCK=8, warmup=True)
    assert (x == 4).all()


def test_observers_are_called():
    @kiln.jit
    def add(x, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(x + at, kl.load(x + at) + 1.0)

    x, seen = np.zeros(8), []
    for _ in range(3):
        add[(1,)](x, BLOCK=8)
    with jit.recording(lambda kernel, grid: lambda *args, **named: seen.append((kernel, grid))):
        add[(1,)](x, BLOCK=8)
    assert seen == [(add, (1,))] and (x == 3).all()
    add.add_pre_run_hook(lambda *args, **named: seen.append(named))
    add[(1,)](x, BLOCK=8)
    assert seen[1:] == [{"BLOCK": 8}] and (x == 4).all()
    add.pre_run_hooks = hooks = []
    for _ in range(2):
        add[(1,)](x, BLOCK=8)
    hooks.append(lambda *args, **named: seen.append("again"))
    add[(1,)](x, BLOCK=8)
    assert seen.pop() == "again" and (x == 7).all()
    hooks.clear()
    tuned = kiln.autotune([kiln.Config({"BLOCK": 4}), kiln.Config({"BLOCK": 8})], key=[])(add)
    for _ in range(3):
        tuned[(1,)](x)
    add.run = lambda *args, grid, **named: seen.append(grid)
    tuned[(2,)](x)
    assert seen[2:] == [(2,)]


def test_grids_are_checked():
    kernel = make_kernel()
    x, y = np.zeros(64), np.zeros(64)
    for grid in [(1,), 1, lambda meta: (1,), np.int64(1)] * 2:
        kernel[grid](x, y, 5, 6, 0.5, True, 1.0, BLOCK=4)
    assert launched(kernel) == 6
    before = y.copy()
    kernel[(0,)](x, y, 50, 6, 0.5, True, 1.0, BLOCK=4)
    assert (y == before).all()
    for grid in [(), (1, 2, 3, 4), (-1,), (2**31,), (2**30, 2**30, 2**30), None, "1", (1.0,)]:
        with pytest.raises(kiln.errors.KilnError, match="grid"):
            kernel[grid](x, y, 5, 6, 0.5, True, 1.0, BLOCK=4)


def test_kernels_are_collected():
    kernel = make_kernel()
    x, y = np.zeros(64), np.zeros(64)
    for _ in range(4):
        kernel[(1,)](x, y, 5, 6, 0.5, True, 1.0, BLOCK=4)
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_a_launch_in_a_grid_and_in_a_hook():
    kernel = make_kernel()
    x, y, z = np.zeros(64), np.zeros(64), np.zeros(64)

    def grid(meta):
        kernel[(1,)](x, z, 5, 6, 0.5, True, 1.0, BLOCK=4)
        return (1,)

    for _ in range(4):
        kernel[grid](x, y, 7, 6, 0.5, True, 1.0, BLOCK=4)
    assert y[0] - z[0] == 4.0
    seen = []
    hook = hooks.launch_enter.add(lambda event: seen.append(event.grid))
    try:
        kernel[(1,)](x, y, 7, 6, 0.5, True, 1.0, BLOCK=4)
    finally:
        hooks.launch_enter.remove(hook)
    assert seen == [(1, 1, 1)]

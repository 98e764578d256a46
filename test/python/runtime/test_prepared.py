"""Prepared launches: bound once, launched often, some arguments replaced by other values of the same kind."""

from __future__ import annotations

import gc
import weakref

import fake_cuda
import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, hooks, knobs

# Prepared launches never copy arrays; if a program's arrays must be copied, they are rejected.
pytestmark = pytest.mark.skipif(knobs.stage_arrays, reason="arrays are copied to a GPU and back")

FACTOR = kl.constexpr(2)


@kiln.jit
def scale(x, out, n, factor, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + at, kl.load(x + at, mask=at < n) * factor * FACTOR, mask=at < n)


@kiln.struct
class Rows:
    data: object
    stride: object


@kiln.jit
def first_column(x: Rows, out, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    kl.store(out + at, kl.load(x.data + at * x.stride))


def arrays(count=2, n=64):
    """Arrays whose addresses are multiples of 16."""
    made = [np.arange(n + 4, dtype=np.float32) for _ in range(count)]
    return [x[-x.ctypes.data // 4 % 4 :][:n] for x in made]


def test_launches_when_it_is_called_and_not_before():
    x, out = arrays()
    expected = out.copy()
    launch = scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16)
    assert np.array_equal(out, expected)
    for factor in (1, 2):
        x *= factor
        assert launch() is None
        assert np.array_equal(out, x * 6)
    assert launch.grid == (4, 1, 1)
    assert launch.compiled is scale[(4,)](x, out, 64, 3.0, BLOCK=16), "the code that a launch runs"


def test_arguments_are_kept():
    x, out = arrays()
    launch = scale.prepare(x, np.zeros(64, np.float32), 64, 3.0, grid=4, BLOCK=16)
    gc.collect()
    launch()
    launch(out=out)
    assert np.array_equal(out, x * 6)


def test_it_can_be_collected():
    @kiln.jit
    def local(x):
        kl.store(x, 1.0)

    launch = local.prepare(np.zeros(1, np.float32), grid=1)
    local.kept = launch  # makes a reference cycle
    seen = weakref.ref(local)
    launch()
    del local, launch
    gc.collect()
    assert seen() is None


def test_other_values_for_one_launch():
    x, out, other = arrays(3)
    other += 7
    launch = scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16)
    launch(x=other)
    assert np.array_equal(out, other * 6)
    launch(other, factor=5.0)
    assert np.array_equal(out, other * 10)
    out[:] = 0
    launch(x, out, 32)
    assert np.array_equal(out[:32], x[:32] * 6) and not out[32:].any()
    launch()
    assert np.array_equal(out, x * 6), "what was bound is as it was"


def test_structs_and_tuples():
    x, out = np.arange(64, dtype=np.float32), np.zeros(4, np.float32)
    launch = first_column.prepare(Rows(x, 5), out, grid=1, BLOCK=4)
    launch()
    assert np.array_equal(out, x[:20:5])
    launch(Rows(x[16:], 7))
    assert np.array_equal(out, x[16:44:7])
    with pytest.raises(errors.LaunchError, match="value like the one that the launch was prepared with"):
        launch(Rows(x, 16))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: {"x": x.astype(np.float64)}, r"prepared with \(\*fp32.*got \*fp64"),
        (lambda x: {"x": x[1:]}, r"\(\*fp32:16\), got \*fp32"),
        (lambda x: {"n": 63}, r"\(i32:16\), got i32"),
        (lambda x: {"n": 1 << 40}, "got i64"),
        (lambda x: {"n": 1}, "got 1"),
        (lambda x: {"BLOCK": 32}, r"\(16\), got 32"),
        (lambda x: {"x": "text"}, "got a string"),
        (lambda x: {"out": x}, "overlaps no other"),
    ],
)
def test_values_of_another_kind(change, message):
    x, out = arrays()
    launch = scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16)
    out[:] = 5
    with pytest.raises(errors.LaunchError, match=message):
        launch(**change(x))
    assert (out == 5).all()


def test_read_only_arrays():
    x, out, fixed = arrays(3)
    launch = scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16)
    fixed.flags.writeable = False
    launch(x=fixed)
    assert np.array_equal(out, fixed * 6)
    with pytest.raises(errors.LaunchError, match="read-only"):
        launch(out=fixed)
    with pytest.raises(errors.LaunchError, match="read-only"):
        scale.prepare(x, fixed, 64, 3.0, grid=(4,), BLOCK=16)


def test_overlap_at_prepare_time_may_disappear():
    x, out = arrays()
    launch = scale.prepare(x, x, 64, 1.0, grid=(4,), BLOCK=16)
    launch(out=out)
    assert np.array_equal(out, x * 2)


def test_unknown_names():
    x, out = arrays()
    launch = scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16)
    with pytest.raises(TypeError, match="'num_warps'"):
        launch(num_warps=4)
    with pytest.raises(TypeError, match="two"):
        launch(x, x=x)
    with pytest.raises(TypeError, match="at most 5"):
        launch(x, out, 64, 3.0, 16, 4)
    with pytest.raises(TypeError, match="stream: expected a stream of torch"):
        launch(stream="left")


def test_hooks_are_told():
    x, out, other = arrays(3)
    launch = scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16, num_warps=2)
    seen = []
    hook = hooks.launch_enter.add(
        lambda event: seen.append((event.name, event.grid, event.arguments["x"] is other, event.arguments["num_warps"]))
    )
    try:
        launch()
        launch(x=other)
    finally:
        hooks.launch_enter.remove(hook)
    launch()
    assert seen == [("scale", (4, 1, 1), False, 2), ("scale", (4, 1, 1), True, 2)]


def test_checked_launches_are_not_prepared():
    x, out = arrays()
    with knobs.scope(check="bounds"), pytest.raises(errors.LaunchError, match="KILN_CHECK"):
        scale.prepare(x, out, 64, 3.0, grid=(4,), BLOCK=16)


def test_an_empty_grid():
    x, out = arrays()
    out[:] = 1
    scale.prepare(x, out, 64, 3.0, grid=(0,), BLOCK=16)()
    assert (out == 1).all()


def test_tuned_and_heuristic_kernels():
    measured = []

    def do_bench(launch, quantiles):
        launch()
        measured.append(1)
        return [1.0] * 3

    tuned = kiln.autotune(
        [kiln.Config({"BLOCK": 16}), kiln.Config({"BLOCK": 32})], key=["n"], do_bench=do_bench, cache_results=False
    )(scale)
    x, out = arrays()
    launch = tuned.prepare(x, out, 64, 3.0, grid=lambda meta: (64 // meta["BLOCK"],))
    assert len(measured) == 2 and launch.grid == (64 // tuned.best_config.kwargs["BLOCK"], 1, 1)
    out[:] = 0
    launch()
    assert np.array_equal(out, x * 6)
    chosen = kiln.heuristics({"BLOCK": lambda arguments: arguments["n"] // 2})(scale)
    out[:] = 0
    chosen.prepare(x, out, 64, 3.0, grid=2)()
    assert np.array_equal(out, x * 6)


@pytest.mark.skipif(fake_cuda.library() is None, reason="the driver without a GPU is not built")
def test_on_a_gpu(tmp_path):
    said = fake_cuda.run(
        tmp_path,
        """
        x, y, z = (CudaArray(np.ones(64, np.float32)) for _ in range(3))
        launch = double.prepare(x, y, 64, grid=(4,), BLOCK=16, num_warps=2)
        assert not launches()
        addresses = []
        on_launch(lambda launch, words: addresses.append((launch.stream, int(words[0]), int(words[1]))))
        at = [a.__cuda_array_interface__["data"][0] for a in (x, y, z)]
        launch()
        launch(stream=0x40)
        class Stream:
            cuda_stream = 0x80
        launch(z, stream=Stream())
        launch(out=z)
        assert addresses == [(None, at[0], at[1]), (0x40, at[0], at[1]), (0x80, at[2], at[1]), (None, at[0], at[2])]
        assert all("grid 4x1x1 block 64x1x1" in line for line in launches()), launches()
        try:
            launch(x=np.ones(64, np.float32))
        except errors.LaunchError as problem:
            assert "on CUDA device 0" in str(problem) and "in host memory" in str(problem), problem
        else:
            raise AssertionError("an array of the host")
        times = launch.time_driver(5)
        assert len(times) == 5 and all(time > 0 for time in times) and len(launches()) == 9
        fake.fakeForce(b"cuLaunchKernelEx", 701)
        try:
            launch()
        except errors.KilnError as problem:
            print(type(problem).__name__)
        """,
        before=fake_cuda.DOUBLE,
    )
    assert said.strip() == "ResourceError"


@pytest.mark.skipif(fake_cuda.library() is None, reason="the driver without a GPU is not built")
def test_counts_of_products_on_a_gpu(tmp_path):
    """New values must have the divisibility by 8 and 4 that the code relies on; code without descriptors relies on
    none."""
    fake_cuda.run(
        tmp_path,
        """
    a, c = CudaArray(np.zeros((64, 64), np.float16)), CudaArray(np.zeros((64, 64), np.float32))
    described = square.prepare(a, c, 64, 32, 72, 64, grid=(1,))
    plain = square.prepare(a, c, 64, 32, -72, 64, grid=(1,))
    described(stride=88), plain(stride=77), plain(stride=-9)
    assert len(launches()) == 3
    for launch, stride, word in [(described, 76, "i32:8"), (described, -72, "stride"), (plain, 64, "i32")]:
        try:
            launch(stride=stride)
        except errors.LaunchError as error:
            assert word in str(error), error
        else:
            raise AssertionError(stride)
    """,
        before=fake_cuda.SQUARE,
    )

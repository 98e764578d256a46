"""Calls that repeat the launches of an earlier call of their kind give the function's result, and a call's kind
includes everything that determines it."""

from __future__ import annotations

import numpy as np
import pytest
from kiln import errors, hooks, knobs
from kiln.kernels.activation import bias_gelu, swiglu
from kiln.kernels.attention import attention
from kiln.kernels.elementwise import add
from kiln.kernels.elementwise.kernel import add_kernel
from kiln.kernels.embedding import embedding
from kiln.kernels.flat import FlatPlan
from kiln.kernels.gemm import linear, matmul
from kiln.kernels.machine import DEFAULT_GPU, launch_options, planning_for
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm
from kiln.kernels.rope import rope
from kiln.kernels.rows import RowPlan
from kiln.kernels.softmax import softmax

pytestmark = pytest.mark.host


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


# The function, and new arguments of the same kind for each call.
CALLS = {
    "rms_norm": (rms_norm, lambda rng: ((normal(rng, 5, 100), normal(rng, 100)), {"eps": 1e-5})),
    "rms_norm out": (rms_norm, lambda rng: ((normal(rng, 5, 100), normal(rng, 100)), {"out": normal(rng, 5, 100)})),
    "residual_rms_norm": (
        residual_rms_norm,
        lambda rng: ((normal(rng, 3, 64), normal(rng, 3, 64), normal(rng, 64)), {}),
    ),
    "residual_rms_norm out": (
        residual_rms_norm,
        lambda rng: (
            (normal(rng, 3, 64), normal(rng, 3, 64), normal(rng, 64)),
            {"out": (normal(rng, 3, 64), normal(rng, 3, 64))},
        ),
    ),
    "layer_norm": (layer_norm, lambda rng: ((normal(rng, 4, 96), normal(rng, 96), normal(rng, 96)), {})),
    "softmax": (softmax, lambda rng: ((normal(rng, 4, 70),), {"plan": PLAN})),
    "swiglu halves": (swiglu, lambda rng: ((normal(rng, 6, 64),), {})),
    "swiglu of views": (swiglu, lambda rng: ((normal(rng, 6, 128)[:, ::2],), {"layout": "interleaved"})),
    "bias_gelu": (bias_gelu, lambda rng: ((normal(rng, 6, 64), normal(rng, 64)), {"approximate": "tanh"})),
    "add": (add, lambda rng: ((normal(rng, 200), normal(rng, 200)), {})),
    "embedding": (embedding, lambda rng: ((rng.integers(0, 9, 17), normal(rng, 9, 32)), {})),
    "rope": (
        rope,
        lambda rng: ((normal(rng, 2, 4, 6, 32), normal(rng, 2, 4, 2, 32), normal(rng, 8, 16), normal(rng, 8, 16)), {}),
    ),
    "rope of q alone": (
        rope,
        lambda rng: ((normal(rng, 2, 4, 6, 32), None, normal(rng, 8, 16), normal(rng, 8, 16)), {"offset": 3}),
    ),
    "matmul": (matmul, lambda rng: ((normal(rng, 20, 30), normal(rng, 30, 40)), {"alpha": 0.5})),
    "linear": (linear, lambda rng: ((normal(rng, 2, 5, 30), normal(rng, 40, 30), normal(rng, 40)), {})),
    "attention": (
        attention,
        lambda rng: (tuple(normal(rng, 1, 20, 2, 32) for _ in "qkv"), {"causal": True, "return_lse": True}),
    ),
}
PLAN = RowPlan(block=80)


def counted(function, *args, **kwargs):
    """The result, and how many calls the cache saw, recorded and repeated during the call."""
    before = (function._calls or function._make_calls()).counts
    result = function(*args, **kwargs)
    return result, tuple(now - then for now, then in zip(function._calls.counts, before, strict=True))


def arrays_of(result):
    return [x for x in (result if isinstance(result, tuple) else (result,)) if x is not None]


@pytest.mark.parametrize("name", CALLS)
def test_made_again(name, rng):
    function, make = CALLS[name]
    kept = []  # so that no call reuses the memory of an earlier one
    for seen in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)):
        args, kwargs = make(rng)
        before = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        result, counts = counted(function, *args, **kwargs)
        assert counts == seen
        out = kwargs.pop("out", None)
        if out is not None:
            assert all(a is b for a, b in zip(arrays_of(result), arrays_of(out), strict=True))
        expected = function._run(args, kwargs)
        for got, wanted in zip(arrays_of(result), arrays_of(expected), strict=True):
            assert got is not wanted and got.dtype == wanted.dtype and got.shape == wanted.shape
            assert np.array_equal(got, wanted, equal_nan=True)
        for then, now in zip(before, args, strict=True):
            assert then is now or np.array_equal(then, now)
        kept += [args, kwargs, result, expected]


def test_results_are_apart(rng):
    """Outputs of repeated calls are not those of the recorded call."""
    x, y = normal(rng, 64), normal(rng, 64)
    results = [add(x, y) for _ in range(4)]
    assert len({id(result) for result in results}) == 4
    assert len({result.ctypes.data for result in results}) == 4


def warmed(function, *args, **kwargs):
    function.forget()
    for _ in range(3):
        _, counts = counted(function, *args, **kwargs)
    assert counts == (0, 0, 1), "calls of this kind are made again"


def whole(rng, *shape):
    """An array that owns its memory, so that the end of its life is known; aligned to 16."""
    return next(x for x in (normal(rng, *shape) for _ in range(1000)) if x.ctypes.data % 16 == 0)


X, W = (4, 64), (64,)
CHANGES = {
    "a shape": lambda rng, x, w, out: (rms_norm, (normal(rng, 5, 64), w), {}),
    "the number of dimensions": lambda rng, x, w, out: (rms_norm, (normal(rng, 1, 4, 64), w), {}),
    "a stride": lambda rng, x, w, out: (rms_norm, (normal(rng, 4, 128)[:, ::2], w), {}),
    "a type": lambda rng, x, w, out: (rms_norm, (x.astype(np.float16), w), {}),
    "the type of weights": lambda rng, x, w, out: (rms_norm, (x, w.astype(np.float16)), {}),
    "a number": lambda rng, x, w, out: (rms_norm, (x, w, 1e-5), {}),
    "a number by name": lambda rng, x, w, out: (rms_norm, (x, w), {"eps": 1e-5}),
    "a string": lambda rng, x, w, out: (rms_norm, (x, w), {"cast": "before"}),
    "a plan": lambda rng, x, w, out: (rms_norm, (x, w), {"plan": RowPlan(block=128)}),
    "an output": lambda rng, x, w, out: (rms_norm, (x, w), {"out": out}),
    "None by name": lambda rng, x, w, out: (rms_norm, (x, w), {"out": None}),
    "in place": lambda rng, x, w, out: (rms_norm, (x, w), {"out": x}),
    "in place by another object": lambda rng, x, w, out: (rms_norm, (x, w), {"out": x[:]}),
    "weights of x": lambda rng, x, w, out: (rms_norm, (x, x[0]), {}),
    "other weights of x": lambda rng, x, w, out: (rms_norm, (x, x[1]), {}),
    "memory that begins elsewhere": lambda rng, x, w, out: (rms_norm, (normal(rng, 4, 65)[:, 1:], w), {}),
    "an integer for a number": lambda rng, x, w, out: (rms_norm, (x, w, 1), {}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_kind(change, rng):
    x, w, out = whole(rng, *X), whole(rng, *W), whole(rng, *X)
    warmed(rms_norm, x, w)
    function, args, kwargs = CHANGES[change](rng, x, w, out)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    result, counts = counted(function, *args, **kwargs)
    assert counts == (1, 0, 0), "a kind of its own"
    kwargs.pop("out", None)
    assert np.array_equal(result, function._run(tuple(copies), kwargs))


def test_alignment(rng):
    """Code that assumes an address to be a multiple of 16 is not launched for other addresses."""
    memory = np.zeros(4 * 80, np.float32)
    first = -memory.ctypes.data // 4 % 64
    even, odd = memory[first : first + 64], memory[first + 1 : first + 65]
    y = whole(rng, 64)
    warmed(add, even, y)
    result, counts = counted(add, odd, y)
    assert counts == (1, 0, 0) and np.array_equal(result, odd + y)


def test_what_a_call_refuses_it_refuses_again(rng):
    x, w = whole(rng, *X), whole(rng, *W)
    memory = np.zeros(5 * 64, np.float32)
    apart, ahead = memory[:256].reshape(4, 64), memory[64:].reshape(4, 64)
    fixed = np.zeros(X, np.float32)
    fixed.flags.writeable = False
    warmed(rms_norm, x, w, out=np.zeros(X, np.float32))
    for refused, args in (
        ("overlap", lambda: rms_norm(apart, w, out=ahead)),
        ("read-only", lambda: rms_norm(x, w, out=fixed)),
        ("masked", lambda: rms_norm(np.ma.masked_array(x, x > 0), w)),
        ("not_apart", lambda: rms_norm(x, w, out=np.lib.stride_tricks.as_strided(memory, X, (0, 4)))),
    ):
        for _ in range(3):
            with pytest.raises(errors.ArgumentError):
                args()
            assert refused


def test_options_of_a_block(rng):
    x, y = whole(rng, 64), whole(rng, 64)
    warmed(add, x, y)
    names = []

    @hooks.launch_enter.add
    def note(launch):
        names.append((launch.name, launch.arguments.get("num_warps")))

    try:
        with launch_options(num_warps=2):
            add(x, y)
        add(x, y)
    finally:
        hooks.launch_enter.remove(note)
    assert names == [("add_kernel", 2), ("add_kernel", None)], "hooks see every launch"
    with launch_options(num_warps=2):
        assert counted(add, x, y)[1] == (1, 0, 0)
        assert counted(add, x, y)[1] == (0, 1, 0)
        assert counted(add, x, y)[1] == (0, 0, 1)
    with launch_options(num_warps=4):
        assert counted(add, x, y)[1] == (1, 0, 0)
    with launch_options(num_warps=2):
        assert counted(add, x, y)[1] == (0, 0, 1), "of the block with the same options"
    assert counted(add, x, y)[1] == (0, 0, 1)
    with planning_for(DEFAULT_GPU):
        assert counted(add, x, y)[1] == (0, 0, 0), "nothing is kept of launches planned for another machine"


def test_switches_and_dropped_code(rng):
    x, y = whole(rng, 64), whole(rng, 64)
    warmed(add, x, y)
    with knobs.scope(check="bounds"):
        assert counted(add, x, y)[1] == (0, 1, 0), "code that checks is another, and its launches look at arrays"
        assert counted(add, x, y)[1] == (0, 1, 0)
    assert counted(add, x, y)[1] == (0, 1, 0)
    assert counted(add, x, y)[1] == (0, 0, 1)
    add_kernel.unload()
    assert not add_kernel.compiled_kernels
    assert counted(add, x, y)[1] == (0, 1, 0)
    assert len(add_kernel.compiled_kernels) == 1
    assert counted(add, x, y)[1] == (0, 0, 1)


def test_hooks_of_the_kernel(rng):
    x, y = whole(rng, 64), whole(rng, 64)
    warmed(add, x, y)
    seen = []
    add_kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args)))
    try:
        for _ in range(3):
            add(x, y)
    finally:
        add_kernel.pre_run_hooks.clear()
    assert seen == [4, 4, 4]
    add(x, y)
    assert len(seen) == 3 and counted(add, x, y)[1] == (0, 0, 1)


def test_numbers_that_never_come_again_are_not_recorded(rng):
    q, cos, sin = normal(rng, 1, 1, 2, 32), normal(rng, 64, 16), normal(rng, 64, 16)
    rope.forget()
    for offset in range(8):
        assert counted(rope, q, None, cos, sin, offset=offset)[1] == (1, 0, 0)


def test_arrays_of_other_classes_take_the_long_way(rng):
    class Wrapped:
        def __init__(self, array):
            self.array, self.__array_interface__ = array, array.__array_interface__
            self.shape, self.dtype, self.strides, self.ndim = array.shape, array.dtype, array.strides, array.ndim
            self.itemsize, self.flags = array.itemsize, array.flags

    x, y = whole(rng, 64), whole(rng, 64)
    warmed(add, x, y)
    for _ in range(3):
        result, counts = counted(add, Wrapped(x), y)
        assert counts == (0, 0, 0) and np.array_equal(result, x + y)


def test_products_that_count_take_the_long_way(rng):
    """Counters belong to a stream, not to an argument, so these launches are not repeated."""
    a, b = normal(rng, 20, 4096), normal(rng, 4096, 24)
    for _ in range(4):
        out, _ = counted(matmul, a, b, splits=2)
        np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=0, atol=1e-2)


def test_flat_plans_are_told_apart(rng):
    x, y = whole(rng, 512), whole(rng, 512)
    small, large = FlatPlan(64), FlatPlan(512)
    for plan in (small, large, small, large, small, large):
        assert np.array_equal(add(x, y, plan=plan), x + y)


def test_launches_that_are_looked_at(rng):
    """Recording `kernel[grid]` also sees launches of repeated calls, and nothing of them is kept."""
    from kiln.runtime.jit import recording

    x, y = whole(rng, 64), whole(rng, 64)
    warmed(add, x, y)
    seen = []
    with recording(lambda kernel, grid: lambda *args, **kwargs: seen.append(kernel.__name__)):
        for _ in range(3):
            assert counted(add, x, y)[1] == (0, 0, 0)
            assert counted(add, x, y, out=y)[1] == (0, 0, 0)
    assert seen == ["add_kernel"] * 6
    result, counts = counted(add, x, y)
    assert counts == (0, 0, 1) and np.array_equal(result, x + y)
    assert [counted(add, x, y.copy(), out=y)[1] for _ in range(3)] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]

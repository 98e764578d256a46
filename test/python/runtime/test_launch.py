"""Launching: grids, binding, specialisation and its keys, captured values, threads, fork, notebooks."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import types
from collections import namedtuple
from typing import Any, NamedTuple

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs

STEP: kl.constexpr = 3


@kiln.jit
def add(x, y, out, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    mask = i < n
    kl.store(out + i, kl.load(x + i, mask=mask) + kl.load(y + i, mask=mask), mask=mask)


@kiln.jit
def mark_programs(out, width, height):
    x, y, z = kl.program_id(0), kl.program_id(1), kl.program_id(2)
    kl.store(out + (z * height + y) * width + x, x + 10 * y + 100 * z)


@kiln.jit
def store_scalar(out, value):
    kl.store(out, value)


@kiln.jit
def store_default(out, value: kl.constexpr = 7, *rest):
    kl.store(out, value)
    for i in kl.static_range(len(rest)):
        kl.store(out + 1 + i, rest[i])


@kiln.jit
def step(x, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(x + i, kl.load(x + i) + STEP)


def specialisations(kernel, *args, **kwargs):
    """The signature of the code that runs for these arguments."""
    return kernel.warmup(*args, grid=(1,), **kwargs).signature


def ints(count=64):
    return np.zeros(count, np.int32)


# -- grids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 127, 128, 129, 100_003])
def test_one_dimension_by_int_tuple_and_function(n):
    x = np.arange(n, dtype=np.float32)
    blocks = kiln.cdiv(n, 128)
    for grid in (blocks, (blocks,), [blocks], np.int64(blocks), lambda meta: (kiln.cdiv(meta["n"], meta["BLOCK"]),)):
        out = np.zeros_like(x)
        add[grid](x, x, out, n, BLOCK=128)
        np.testing.assert_array_equal(out, x + x)


def test_three_dimensions():
    out = np.full((4, 3, 5), -1, np.int32)
    mark_programs[(5, 3, 4)](out, 5, 3)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x + 10 * y + 100 * z)


@pytest.mark.parametrize("grid", [0, (0,), (4, 0), lambda meta: (0, 1, 1)])
def test_an_empty_grid_launches_nothing(grid):
    out = ints()
    mark_programs[grid](out, 5, 3)
    assert not out.any()


def test_a_grid_is_read_once_even_if_reading_it_changes_it():
    class Side:
        def __index__(self):
            grid.clear()
            return 2

    grid = [Side(), 3, 5]
    out = np.full((5, 3, 2), -1, np.int32)
    mark_programs[grid](out, 2, 3)
    assert out[4, 2, 1] == 421 and (out >= 0).all() and grid == []


def test_the_grid_function_sees_arguments_defaults_and_options():
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (1,)

    store_default[grid](ints(), num_warps=8)
    assert seen["value"] == 7 and seen["num_warps"] == 8 and "out" in seen


# -- binding ---------------------------------------------------------------------------------------


def test_arguments_by_position_by_name_and_by_default():
    out = ints()
    store_default[1](out)
    assert out[0] == 7
    store_default[1](value=9, out=out)
    assert out[0] == 9


def test_variadic_arguments():
    out = ints()
    store_default[1](out, 1, 5, 6, 1)
    assert out[:4].tolist() == [1, 5, 6, 1]


def test_run_and_warmup():
    out = ints()
    compiled = store_scalar.warmup(out, 5, grid=(1,))
    assert out[0] == 0 and isinstance(compiled, kiln.CompiledKernel)
    assert store_scalar.run(out, 6, grid=(1,)) is compiled
    assert out[0] == 6


def test_warmup_takes_types_for_arrays():
    assert specialisations(store_scalar, kl.float32, 2.5) == "out=*fp32:16, value=fp32"


# -- specialisation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "i32"),
        (32, "i32:16"),
        (0, "i32:16"),
        (1, "1"),
        (True, "i1"),
        (None, "None"),
        (2.5, "fp32"),
        (2**31 - 1, "i32"),
        (2**31, "i64:16"),
        (-(2**31) - 1, "i64"),
        (2**63, "u64:16"),
        (np.int64(5), "i32"),
        (np.float32(0.5), "fp32"),
        (np.float64(0.5), "fp32"),
        (np.bool_(True), "i1"),
    ],
)
def test_specialisation_by_value(value, expected):
    @kiln.jit
    def ignore(out, value):
        kl.store(out, 1)

    assert specialisations(ignore, ints(), value).split(", value=")[1] == expected


def test_annotations_and_do_not_specialize():
    @kiln.jit(do_not_specialize=["a"], do_not_specialize_on_alignment=["b"])
    def kernel(out, a, b, c: kl.int64, d: kl.float16):
        kl.store(out, c)

    assert specialisations(kernel, ints(), 1, 1, 1, 1) == "out=*i32:16, a=i32, b=1, c=i64, d=fp16"
    assert specialisations(kernel, ints(), 32, 32, 32, 32) == "out=*i32:16, a=i32, b=i32, c=i64:16, d=fp16"


def test_equal_keys_share_code_and_others_do_not():
    @kiln.jit
    def kernel(out, n, FLAG: kl.constexpr):
        kl.store(out, n)

    out = ints()
    first = kernel[1](out, 5, 1)
    assert kernel[1](out, 6, 1) is first
    assert kernel[1](out, 16, 1) is not first
    assert kernel[1](out, 5, True) is not first, "True is not 1"
    assert kernel[1](out, 5, 1.0) is not first, "1.0 is not 1"
    assert kernel[1](out[1:], 5, 1) is not first, "alignment"
    assert kernel[1](out.view(np.uint32), 5, 1) is not first
    assert kernel[1](out, 5, 1, num_warps=8) is not first
    assert kernel[1](out, 5, kl.constexpr(1)) is first
    assert len(kernel.compiled_kernels) == 7


def test_scalars_arrive_whole():
    for value, dtype in [
        (-7, np.int32),
        (2**40, np.int64),
        (2**63 + 3, np.uint64),
        (True, np.bool_),
        (0.1, np.float32),
    ]:
        out = np.zeros(1, dtype)
        store_scalar[1](out, value)
        assert out[0] == dtype(value)


def test_tuples():
    @kiln.jit
    def kernel(pair, scale):
        kl.store(pair[0], kl.load(pair[1][0]) * scale + pair[1][1])

    out, x = np.zeros(1, np.float32), np.array([3.0], np.float32)
    compiled = kernel[1]((out, (x, 1)), 2.0)
    assert out[0] == 7.0
    assert compiled.signature.startswith("pair=(*fp32:16, (*fp32:16, 1))")


class Pair(NamedTuple):
    data: Any
    scale: Any


def test_named_tuples_keep_their_names():
    @kiln.jit
    def kernel(out, pair, HOW: kl.constexpr):
        kl.store(out, kl.load(pair.data) * pair.scale + HOW.scale)

    @kiln.jit
    def of_constants(out, pair):
        kl.store(out, pair.scale)

    out, x = np.zeros(1, np.float32), np.array([3.0], np.float32)
    kernel[1](out, Pair(x, 2.5), Pair(None, 7))
    assert out[0] == 14.5
    other = namedtuple("other", ["scale", "data"])
    kernel[1](out, other(1.5, x), Pair(None, 7))
    assert out[0] == 11.5
    of_constants[1](out, Pair(None, 1))
    assert out[0] == 1
    with pytest.raises(kiln.errors.CompilationError, match="no attribute data"):
        kernel[1](out, (x, 2.5), Pair(None, 7))


@pytest.mark.cpu
def test_launch_options_are_recorded():
    compiled = store_scalar[1](ints(), 5, num_warps=8, num_stages=2, maxnreg=None)
    options = compiled.metadata["options"]
    assert options["num_warps"] == 8 and options["num_stages"] == 2


# -- what a kernel takes from outside -------------------------------------------------------------


def test_a_changed_constant_is_noticed(monkeypatch):
    x = ints(16)
    step[1](x, 16)
    assert (x == 3).all()
    monkeypatch.setitem(globals(), "STEP", kl.constexpr(10))
    step[1](x, 16)
    assert (x == 13).all()
    monkeypatch.setitem(globals(), "STEP", kl.constexpr(3))
    count = len(step.compiled_kernels)
    step[1](x, 16)
    assert (x == 16).all() and len(step.compiled_kernels) == count, "going back compiles nothing"


def test_a_changed_closure_is_noticed():
    amount = kl.constexpr(1)

    @kiln.jit
    def kernel(out):
        kl.store(out, amount)

    out = ints()
    kernel[1](out)
    assert out[0] == 1
    amount = kl.constexpr(2)
    kernel[1](out)
    assert out[0] == 2


def test_functions_as_constants_are_followed():
    @kiln.jit
    def plus_step(a):
        return a + STEP

    @kiln.jit
    def twice(a):
        return a * 2

    @kiln.jit
    def apply(out, value, f: kl.constexpr):
        kl.store(out, f(value))

    out = ints()
    apply[1](out, 5, plus_step)
    assert out[0] == 8
    apply[1](out, 5, twice)
    assert out[0] == 10
    apply[1](out, 5, plus_step)
    assert out[0] == 8


@pytest.mark.cpu
def test_switches_are_noticed():
    out = ints()
    plain = store_scalar[1](out, 5)
    with knobs.scope(check="bounds"):
        checked = store_scalar[1](out, 5)
    assert checked is not plain and checked.metadata["check"] == "bounds"
    assert store_scalar[1](out, 5) is plain
    with knobs.scope(num_threads=3):
        store_scalar[1](out, 5)
        from kiln import _kiln

        assert _kiln.num_threads() == 3


@pytest.mark.cpu
def test_switches_from_the_environment_are_noticed(monkeypatch):
    out = ints()
    plain = store_scalar[1](out, 5)
    monkeypatch.setenv("KILN_CHECK", "bounds")
    assert store_scalar[1](out, 5).metadata["check"] == "bounds"
    monkeypatch.delenv("KILN_CHECK")
    assert store_scalar[1](out, 5) is plain


# -- threads, processes, places --------------------------------------------------------------------


def test_many_threads_get_one_compile(monkeypatch):
    from kiln.runtime import jit

    compiles = []
    real = jit.compile_kernel
    monkeypatch.setattr(jit, "compile_kernel", lambda *args: compiles.append(1) or real(*args))

    @kiln.jit
    def kernel(x, n, BLOCK: kl.constexpr):
        i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
        kl.store(x + i, kl.load(x + i, mask=i < n) * 2, mask=i < n)

    start = threading.Barrier(8)
    arrays = [np.full(1003, 1.0 + k, np.float32) for k in range(8)]

    def work(x):
        start.wait()
        for _ in range(10):
            kernel[(8,)](x, 1003, 128)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiles) == 1
    for k, x in enumerate(arrays):
        np.testing.assert_array_equal(x, np.float32((1.0 + k) * 2**10))


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_fork_launching_and_compiling_work():
    code = """
    import os, sys
    import numpy as np
    import kiln, kiln.language as kl

    @kiln.jit
    def fill(x, value, BLOCK: kl.constexpr):
        kl.store(x + kl.program_id(0) * BLOCK + kl.arange(0, BLOCK), value)

    x = np.zeros(64 * 16, np.float32)
    fill[64](x, 1.5, 16)
    child = os.fork()
    if child == 0:
        fill[64](x, 2.5, 16)
        good = (x == 2.5).all()
        fill[32](x, 3, 32)
        os._exit(0 if good and (x == 3).all() else 1)
    _, status = os.waitpid(child, 0)
    fill[64](x, 4.5, 16)
    sys.exit(os.waitstatus_to_exitcode(status) or not (x == 4.5).all())
    """
    run_script(code)


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_other_threads_compile_compiles_too():
    code = """
    import faulthandler, os, sys, threading
    import numpy as np
    import kiln, kiln.language as kl

    @kiln.jit
    def fill(x, value: kl.constexpr, BLOCK: kl.constexpr):
        kl.store(x + kl.program_id(0) * BLOCK + kl.arange(0, BLOCK), value)

    def check(value):
        x = np.zeros(64, np.float32)
        fill[4](x, value, 16)
        return (x == value).all()

    # Modules are imported before any thread runs: a fork in the middle of an import is beyond what Python itself mends.
    assert check(0.5)
    stop = False

    def work(start):
        value = start
        while not stop:
            assert check(float(value))
            value += 4

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    wrong = 0
    for turn in range(6):
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(20, exit=True)
            os._exit(0 if check(-1.0 - turn) else 1)
        wrong += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    stop = True
    for thread in threads:
        thread.join()
    sys.exit(wrong)
    """
    run_script(code)


def run_script(code: str, **kwargs):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(code))
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_kernel_made_by_exec():
    source = textwrap.dedent("""
        @kiln.jit
        def kernel(out, value):
            kl.store(out, value + 1)
    """)
    namespace = {"kiln": kiln, "kl": kl, "__name__": "made_by_exec"}
    exec(source, namespace)
    out = ints()
    namespace["kernel"][1](out, 5)
    assert out[0] == 6


def test_kernels_are_pickled_by_reference():
    assert pickle.loads(pickle.dumps(add)) is add

    @kiln.jit
    def local(out):
        kl.store(out, 1)

    with pytest.raises(kiln.errors.UserError, match="local"):
        pickle.dumps(local)


# -- what comes back -------------------------------------------------------------------------------


@pytest.mark.cpu
def test_the_compiled_kernel_shows_its_stages():
    compiled = store_scalar[1](ints(), 5)
    assert "tile.store" in compiled.asm["tile"] and compiled.asm["ttir"] == compiled.asm["tile"]
    assert "define" in compiled.asm["llvm"]
    assert compiled.asm["object"][:4] == b"\x7fELF"
    assert list(compiled.asm) == ["tile", "opt", "cpu", "llvm", "asm", "object"]
    assert repr(compiled).startswith("<CompiledKernel store_scalar(out=*i32:16, value=i32) for cpu")
    with pytest.raises(KeyError):
        compiled.asm["ptx"]


def test_pre_run_hooks():
    @kiln.jit
    def kernel(out):
        kl.store(out, 1)

    seen = []
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args)))
    kernel[1](ints())
    assert seen == [1]


def test_constants_hashed_during_a_launch_stay_distinct():
    """Hashing a constant may run Python, as for a dataclass, and thus other launches: here the hash itself launches."""
    meanwhile = []

    class Amount:
        def __init__(self, amount):
            self.amount = amount

        def __eq__(self, other):
            return isinstance(other, Amount) and self.amount == other.amount

        def __hash__(self):
            if len(meanwhile) > 1:
                meanwhile.pop()
            elif meanwhile:
                meanwhile.pop()()
            return hash(self.amount)

    @kiln.jit
    def kernel(out, what: kl.constexpr):
        kl.store(out, what.amount)

    out, other = ints(), ints()
    for looks in range(4):
        # Launch inside the first, second, … hash of this constant.
        another = functools.partial(kernel[1], other, Amount(7 + looks))
        meanwhile += [another] * (1 + looks)
        kernel[1](out, Amount(3 + 10 * looks))
        meanwhile.clear()
        assert out[0] == 3 + 10 * looks
        another()
        assert other[0] == 7 + looks


def test_a_look_at_a_watched_value_may_launch():
    """A module computes its constants on access; meanwhile the kernel is launched with another constant."""
    scale, other = kl.constexpr(3), kl.constexpr(1)
    meanwhile = []

    def answer(name):
        if name != "SCALE":
            raise AttributeError(name)
        while meanwhile:
            meanwhile.pop()()
        return scale

    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = answer

    @kiln.jit
    def kernel(out, n):
        kl.store(out, n * lazy.SCALE + other)

    def launch_with_another():
        nonlocal other
        before, other = other, kl.constexpr(1001)
        kernel[1](out, 7)
        assert out[0] == 1022
        other = before

    out = ints()
    for _ in range(10):
        for _ in range(2):
            kernel[1](out, 5)
            assert out[0] == 16
        meanwhile.append(launch_with_another)


def test_unused_kernels_are_freed():
    import gc
    import weakref

    def make():
        @kiln.jit
        def kernel(out, n):
            kl.store(out, n)

        kernel[1](ints(), 5)
        return weakref.ref(kernel), weakref.ref(kernel.compiled_kernels[0])

    kernel, compiled = make()
    gc.collect()
    assert kernel() is None and compiled() is None


@pytest.mark.cpu
def test_a_launch_costs_microseconds():
    import time

    x = np.zeros(16, np.float32)
    grid = (1,)

    def launches(count=2000):
        start = time.perf_counter()
        for _ in range(count):
            add[grid](x, x, x, 16, BLOCK=16)
        return (time.perf_counter() - start) / count

    launches(10)
    # Measured at 0.5 us; the bound leaves room for slow and busy machines.
    assert min(launches() for _ in range(20)) < 10e-6


def test_what_a_launcher_asks_of_its_owner_is_handed_over_at_once():
    from kiln import _kiln

    asked = {"revalidate": add._revalidate, "compile": add._compile, "forget": add._forget}
    with pytest.raises(TypeError, match="refusals"):
        _kiln.LaunchOwner(add, **asked)
    with pytest.raises(TypeError):
        _kiln.LaunchOwner(add, **asked, refusals=None)
    with pytest.raises(TypeError, match="binding"):
        _kiln.Refusals()
    assert isinstance(add.make_refusals(), _kiln.Refusals)

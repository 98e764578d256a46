"""Sampling in another process: a hang, fault or crash there costs only that configuration, is reported, and harms
nothing here.

The processes run in real time; the tests rely only on an endless loop taking longer than a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import types

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors
from kiln.tune import isolate
from kiln.tune.race import Disqualified
from tuned_kernels import blocks

pytestmark = pytest.mark.cpu

WELL, LOOPS, OUTSIDE, JUST_OUTSIDE, BEFORE = range(5)


@kiln.jit
def kernel(x, n, HOW: kl.constexpr):
    i = kl.arange(0, 16)
    if HOW == 1:
        while kl.atomic_add(x, 0) >= 0:
            kl.store(x + 1, 1)
    elif HOW == 2:
        kl.store(x + n * 1000 + i, 1)
    elif HOW == 3:
        kl.store(x + n + i, 1)
    elif HOW == 4:
        kl.store(x - 1024 - i, 1)
    kl.store(x + i, 7)


def tune(*hows, timeout=20.0, **options):
    configs = [kiln.Config({"HOW": how}) for how in hows]
    return kiln.autotune(configs, key=["n"], isolate=True, timeout=timeout, rep=2, **options)(kernel)


def array(length=64):
    return np.zeros(length, np.int32)


def test_faults_cost_only_the_configuration_that_has_them(caplog):
    x = array()
    tuned = tune(OUTSIDE, JUST_OUTSIDE, WELL, BEFORE)
    with caplog.at_level("INFO", logger="kiln.autotune"):
        tuned[1](x, 64)
    assert tuned.best_config.kwargs == {"HOW": WELL} and (x[:16] == 7).all() and (x[16:] == 0).all()
    told = caplog.text
    for how in (OUTSIDE, JUST_OUTSIDE, BEFORE):
        assert f"HOW: {how}, num_warps: 4, num_stages: 3, num_ctas: 1 is left out: ended its process by SIGSEGV" in told
    assert f"HOW: {WELL}, num_warps: 4, num_stages: 3, num_ctas: 1 is left out" not in caplog.text


def test_a_loop_without_an_end_is_ended(caplog, monkeypatch):
    tuned = tune(LOOPS, WELL, timeout=1.0)
    with caplog.at_level("INFO", logger="kiln.autotune"):
        tuned[1](array(), 64)
    assert tuned.best_config.kwargs == {"HOW": WELL}
    assert "HOW: 1, num_warps: 4, num_stages: 3, num_ctas: 1 is left out: hangs: no answer within 1 s" in caplog.text
    monkeypatch.setattr(isolate, "_Process", lambda *_: pytest.fail("asked again"))
    again = tune(LOOPS, WELL, timeout=1.0)
    again[1](array(), 64)
    assert again.best_config.kwargs == {"HOW": WELL}, "and by the next process"


def test_if_all_configurations_crash_the_error_says_why():
    with pytest.raises(errors.LaunchError, match="compiles and fits, got none of 2") as caught:
        tune(OUTSIDE, BEFORE)[1](array(), 64)
    assert "SIGSEGV" in str(caught.value)


def test_arrays_in_this_process_are_unchanged(monkeypatch):
    """Launches there do not change them: only the launch after tuning does."""

    @kiln.jit
    def add(x, y, n, BLOCK: kl.constexpr):
        kl.store(x, kl.load(x) + BLOCK)
        kl.store(y, kl.load(y) + 1)

    x, y = np.full(1, 100, np.int64), np.full(1, 5, np.int64)
    tuned = kiln.autotune(blocks(16, 32), key=["n"], isolate=True, rep=1)(add)
    tuned[1](x, y, 5)
    assert x[0] == 100 + tuned.best_config.kwargs["BLOCK"] and y[0] == 6


def test_each_isolated_launch_starts_with_reset_arrays():
    """The kernel writes at an address computed from its own result: with the previous launch's result, it would
    fault."""

    @kiln.jit
    def step(count, saved, n, BLOCK: kl.constexpr):
        kl.store(count + kl.load(count) * 100000000, 1)
        kl.store(saved + kl.load(saved) * 100000000, 1)

    count, saved = np.zeros(1, np.int64), np.zeros(1, np.int64)
    options = {"reset_to_zero": ["count"], "restore_value": ["saved"]}
    tuned = kiln.autotune(blocks(16, 32), key=["n"], isolate=True, rep=1, **options)(step)
    tuned[1](count, saved, 5)
    assert count[0] == 1 and all(times[0] < 1e6 for times in tuned.configs_timings.values())


def test_hooks_are_called_here_and_their_arguments_sent():
    seen = []
    hook = lambda arguments: seen.append(os.getpid())  # noqa: E731
    configs = [kiln.Config({"HOW": WELL}, num_warps=warps, pre_hook=hook) for warps in (4, 8)]
    kiln.autotune(configs, key=["n"], isolate=True, rep=1)(kernel)[1](array(), 64)
    assert set(seen) == {os.getpid()}


def test_every_kind_of_argument_arrives():
    """Views with strides, descriptors, tuples, values computed by heuristics, defaults, a grid that is a function."""
    from kiln.tools.tensor_descriptor import TensorDescriptor

    @kiln.heuristics({"SHIFT": lambda arguments: arguments["n"] - 4, "offset": lambda arguments: arguments["n"] * 2})
    @kiln.jit
    def kinds(every, table, pair, n, offset, scale, check, SHIFT: kl.constexpr, BLOCK: kl.constexpr, extra=3):
        value = (
            kl.load(every + offset) + kl.load(pair[0]) + pair[1] + table.load([0, 0]).to(kl.int32).sum() + extra + SHIFT
        )
        value += (scale * 2).to(kl.int32)
        # Any other value gives an invalid address.
        kl.store(check + (value - 118).to(kl.int64) * 1000000000, value)

    base = np.arange(40, dtype=np.int32)
    table = TensorDescriptor(np.ones((16, 16), np.float32), [16, 16], [16, 1], [4, 16])
    arguments = (base[::2], table, (base[7:], 30), 5, 1.5, np.zeros(1, np.int32))
    every, table, pair, n, scale, check = arguments
    tuned = kiln.autotune(blocks(16, 32), key=["n"], isolate=True, rep=1)(kinds)
    tuned[lambda meta: (meta["BLOCK"] // 16 * meta["n"] // meta["n"],)](every, table, pair, n, scale=scale, check=check)
    direct = check[0]
    assert direct == 10 + 7 + 30 + 64 + 3 + 1 + 3
    assert all(times[0] < 1e6 for times in tuned.configs_timings.values())


def test_arrays_of_other_libraries_are_rejected():
    class Other:
        """An array of another library."""

        def __init__(self, values):
            self.values = values
            self.__array_interface__ = values.__array_interface__

    with pytest.raises(errors.LaunchError, match="expected arrays of numpy or torch") as caught:
        tune(WELL, WELL + 2)[1](Other(array()), 64)
    assert "argument 'x'" in str(caught.value)


def test_measuring_functions_run_in_this_process():
    with pytest.raises(errors.UsageError, match="expected no do_bench with isolate=True"):
        tune(WELL, do_bench=lambda launch, quantiles: 1.0)


# ---- the two sides by themselves -------------------------------------------------------------------------------------
def job(how, x, **rest):
    compiled = kernel.warmup(x, 64, HOW=how, grid=(1,))
    sender = isolate.Sender("kernel")
    return isolate.make_job(compiled, (1,), {"x": x, "n": 64, "HOW": how}, sender, **rest), sender


def test_running_out_of_memory_fails_only_that_configuration():
    """Allocating more than the limit is reported; it does not kill the process."""
    x = array()
    small, sender = job(WELL, x)
    large, _ = job(WELL, x, restore_value=("x",))
    sent = isolate.Array("numpy", 0, 0, (1 << 33,), (0,), np.dtype(np.int8))
    large = large._replace(arguments={**large.arguments, "x": sent})
    with isolate.Isolation({"small": small, "large": large}, sender, 20.0, memory_limit=1 << 30) as isolation:
        assert isolation.sample("small") > 0
        with pytest.raises(Disqualified, match="out of memory"):
            isolation.sample("large")
        assert isolation.sample("small") > 0 and isolation.starts == 1, "its process lives"


def test_a_killed_process_is_reported_with_its_signal():
    small, sender = job(WELL, array())
    with isolate.Isolation({"a": small}, sender, 20.0) as isolation:
        assert isolation.sample("a") > 0
        os.kill(isolation._process.process.pid, signal.SIGKILL)
        with pytest.raises(Disqualified, match=r"ended its process by SIGKILL \(out of memory, perhaps\)"):
            isolation.sample("a")
        assert isolation.sample("a") > 0, "a new one is started"


def test_a_crash_after_other_samples_is_retried_alone():
    first, sender = job(WELL, array())
    with isolate.Isolation({"a": first, "b": first}, sender, 20.0) as isolation:
        assert isolation.sample("a") > 0 and isolation.sample("b") > 0
        os.kill(isolation._process.process.pid, signal.SIGABRT)
        assert isolation.sample("b") > 0 and isolation.starts == 2, "it may have been a's doing"


def test_the_process_ends_with_the_race():
    small, sender = job(WELL, array())
    with isolate.Isolation({"a": small}, sender, 20.0) as isolation:
        isolation.sample("a")
        process = isolation._process.process
    assert process.poll() is not None
    assert sender.memories == []


@pytest.mark.parametrize("code,told", [
    (-signal.SIGSEGV, "ended its process by SIGSEGV"),
    (-signal.SIGABRT, "ended its process by SIGABRT"),
    (3, "ended its process with exit code 3"),
])  # fmt: skip
def test_exits_are_reported(code, told):
    assert isolate._how(code) == told


class OutOfMemoryError(RuntimeError):
    """Named like torch's exception."""


@pytest.mark.parametrize("problem,kind,told", [
    (errors.ResourceError("shared memory", 10, 5), "refused", "out of shared memory: required 10, available 5"),
    (MemoryError("16 bytes"), "refused", "out of memory: 16 bytes"),
    (OutOfMemoryError("16 GiB"), "refused", "out of memory: 16 GiB"),
    (errors.DeviceLostError("an illegal address"), "lost", "device lost: an illegal address"),
])  # fmt: skip
def test_failures_of_a_configuration_are_distinguished_from_mistakes(problem, kind, told):
    def load():
        raise problem

    assert isolate._answer(types.SimpleNamespace(load=load), "load", ()) == (kind, told)


def test_a_mistake_of_the_users_is_raised_here():
    mistake = errors.DeviceAssertError("n is odd", kernel="k")

    def load():
        raise mistake

    kind, value = isolate._answer(types.SimpleNamespace(load=load), "load", ())
    assert kind == "raised" and value is mistake


@pytest.mark.parametrize("length", [1, 63, 64, 1024, 4096, 5000])
@pytest.mark.parametrize("shift", [0, 4, 16, 60])
def test_memory_keeps_its_alignment_and_ends_at_a_page_where_it_can(length, shift):
    held = np.zeros(length + 128, np.uint8)
    begin = -held.ctypes.data % 64 + shift
    x = held[begin : begin + length]
    x[:] = np.arange(length) % 251
    sender = isolate.Sender("kernel")
    sent = sender.send("x", x)
    mapped = isolate._map(sender.memories[0])
    address = ctypes.addressof(mapped)
    assert address % 64 == x.ctypes.data % 64 and bytes(mapped) == x.tobytes()
    assert -(address + length) % 4096 < 64, "what is written behind it faults"
    assert sent.offset == 0 and sent.shape == (length,)
    sender.close()


def test_arrays_that_share_memory_share_it_there():
    x = np.arange(64, dtype=np.int32)
    sender = isolate.Sender("kernel")
    one, two, apart = sender.send("x", x), sender.send("y", x), sender.send("z", x.copy())
    assert one.memory == two.memory != apart.memory
    sender.close()


def test_binding_follows_the_decorators():
    fn = types.SimpleNamespace(
        arg_names=["x", "n", "K"],
        params=[types.SimpleNamespace(name="x", has_default=False, default=None),
                types.SimpleNamespace(name="n", has_default=False, default=None),
                types.SimpleNamespace(name="K", has_default=True, default=8)],
    )  # fmt: skip
    above = types.SimpleNamespace(fn=fn, arg_names=fn.arg_names, values={"n": lambda a: a["x"] + 1})
    assert isolate.bind(above, (4,), {"num_warps": 2}) == {"x": 4, "n": 5, "K": 8, "num_warps": 2}

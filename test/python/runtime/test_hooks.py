"""Hooks: which compiles, loads and launches they see, when, and that a removed hook sees nothing."""

from __future__ import annotations

import fake_cuda
import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, hooks

ALL = ("compile_start", "load_start", "load_end", "compile_end", "launch_enter", "launch_exit")


@pytest.fixture
def seen():
    """What each hook was called with, in order; the hooks are removed after the test."""
    found = []
    for name in ALL:
        getattr(hooks, name).add(lambda event, name=name: found.append((name, event)))
    yield found
    for name in ALL:
        getattr(hooks, name).clear()


def make():
    @kiln.jit
    def add_one(x, n, BLOCK: kl.constexpr):
        at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
        kl.store(x + at, kl.load(x + at, mask=at < n) + 1, mask=at < n)

    return add_one


@pytest.mark.cpu
def test_all_of_a_first_launch_in_order(seen):
    kernel, x = make(), np.zeros(64, np.float32)
    compiled = kernel[lambda meta: (64 // meta["BLOCK"],)](x, 64, BLOCK=32, num_warps=2)
    assert [name for name, _ in seen] == list(ALL)
    told = dict(seen)
    start, end = told["compile_start"], told["compile_end"]
    assert start.kernel is kernel and start.target == "cpu" and start.device == -1 and start.compiled is None
    assert start.options == {"num_warps": 2} and [p.name for p in start.parameters] == ["x", "n", "BLOCK"]
    assert end.compiled is compiled and end.seconds > 0
    assert told["load_end"] is compiled and told["load_start"] is compiled
    launch = told["launch_enter"]
    assert launch.compiled is compiled and launch.grid == (2, 1, 1) and launch.name == "add_one"
    assert launch.arguments["x"] is x and launch.arguments["n"] == 64 and launch.arguments["num_warps"] == 2


def test_only_new_specialisations_are_compiled_and_reported(seen):
    kernel, x = make(), np.zeros(64, np.float32)
    kernel[1](x, 64, BLOCK=64)
    del seen[:]
    kernel[1](x, 64, BLOCK=64)
    assert [name for name, _ in seen] == ["launch_enter", "launch_exit"]
    del seen[:]
    kernel.warmup(x, 64, BLOCK=32)
    assert [name for name, _ in seen] == ["compile_start", "load_start", "load_end", "compile_end"]


def test_enter_hooks_run_before_the_kernel_and_exit_hooks_after():
    kernel, x, values = make(), np.zeros(64, np.float32), []
    enter = hooks.launch_enter.add(lambda launch: values.append(x[0]))
    leave = hooks.launch_exit.add(lambda launch: values.append(x[0]))
    try:
        bound = kernel[1]
        bound(x, 64, BLOCK=64)
        hooks.launch_exit.remove(leave)
        bound(x, 64, BLOCK=64)
        hooks.launch_enter.remove(enter)
        bound(x, 64, BLOCK=64)
    finally:
        hooks.launch_enter.clear()
        hooks.launch_exit.clear()
    assert values == [0, 1, 1] and x[0] == 3


def test_what_a_hook_raises_ends_the_launch():
    kernel, x = make(), np.zeros(64, np.float32)

    @hooks.launch_enter.add
    def refuse(launch):
        raise RuntimeError("not now")

    try:
        with pytest.raises(RuntimeError, match="not now"):
            kernel[1](x, 64, BLOCK=64)
    finally:
        hooks.launch_enter.remove(refuse)
    assert x[0] == 0
    with pytest.raises(errors.UsageError, match="expected a function as a hook, got 3"):
        hooks.launch_enter.add(3)


def test_launch_metadata_says_more_of_a_launch(seen):
    def bytes_moved(grid, metadata, arguments):
        return {"bytes": arguments["x"].nbytes * 2, "grid": grid, "of": metadata.name}

    @kiln.jit(launch_metadata=bytes_moved)
    def touch(x):
        kl.store(x, 1.0)

    touch[(2, 3)](np.zeros(16, np.float32))
    expected = {"name": "touch", "bytes": 128, "grid": (2, 3, 1), "of": "touch"}
    assert dict(seen)["launch_enter"].metadata == expected


@pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")
def test_launches_on_a_gpu(tmp_path):
    fake_cuda.run(
        tmp_path,
        """
        from kiln import hooks
        x, out = CudaArray(np.zeros(64, np.float32)), CudaArray(np.zeros(64, np.float32))
        seen = []
        on_launch(lambda launch, words: seen.append("kernel"))
        hooks.compile_end.add(lambda event: seen.append((event.target, event.device)))
        hooks.launch_enter.add(lambda launch: seen.append((launch.grid, launch.compiled.num_warps)))
        hooks.launch_exit.add(lambda launch: seen.append(launch.arguments["n"]))
        double[(2,)](x, out, 64, BLOCK=32, num_warps=8)
        kiln.synchronize()
        assert seen == [("sm_90a", 0), ((2, 1, 1), 8), "kernel", 64], seen
        """,
        before=fake_cuda.DOUBLE,
    )

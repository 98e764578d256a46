"""Long kernels: compile time grows with length, nested branches are correct, and errors name the limits."""

from __future__ import annotations

import time

import kiln
import kiln.language
import numpy as np
import pytest
from emitting import kernel_of
from kiln import knobs
from kiln.errors import CompilationError
from running import launch
from timing import check_time

pytestmark = pytest.mark.cpu


def seconds(lines: list[str], dtype: str) -> float:
    """The CPU time to compile a kernel with these lines, which update the tile `v` between a load and a store."""
    body = ["j = kl.arange(0, 64)", "v = kl.load(x + j)", *lines, "kl.store(out + j, v)"]
    x, out = np.zeros(64, dtype), np.zeros(64, dtype)
    start = time.process_time()
    launch("def kernel(x, out):\n" + "".join(f"    {line}\n" for line in body), x, out)
    return time.process_time() - start


@pytest.mark.parametrize(
    "lines",
    [
        ["v ^= v << 13", "v ^= v >> 17", "v ^= v << 5"] * 8,
        ["v = v * v + j"] * 24,
        ["v = kl.where(v > j, v + 1, v * 3)"] * 16,
    ],
    ids=["shifts", "squares", "choices"],
)
def test_values_whose_uses_double_repeatedly(lines):
    """Tens of millions of paths lead from the last value back to the first."""
    check_time(1, lambda: seconds(lines, "int32"))


@pytest.mark.parametrize(
    "lines, bound",
    [
        (["v ^= v << 13", "v ^= v >> 17", "v ^= v << 5"] * 9, 1),
        (["v = v * v + j"] * 24, 1),
        (["for i in kl.static_range(3000):", "    v = v * 3 + i"], 2),
        (["w = v.to(kl.float32)", *["w = kl.sin(w) + j"] * 500, "v = w.to(kl.int32)"], 1.5),
    ],
    ids=["shifts", "squares", "static range", "sines"],
)
def test_the_same_for_a_gpu(lines, bound):
    body = ["j = kl.arange(0, 64)", "v = kl.load(x + j)", *lines, "kl.store(out + j, v)"]
    kernel = kernel_of("def kernel(x, out):\n" + "".join(f"    {line}\n" for line in body))

    def compiled() -> float:
        start = time.process_time()
        with knobs.scope(target="sm_90a", ptxas="none"):
            kiln.jit(kernel.fn).warmup(kiln.language.int32, kiln.language.int32, grid=(1,))
        return time.process_time() - start

    check_time(bound, compiled)


def test_three_thousand_unrolled_steps():
    """At most 2 s: 0.6 s were measured for the CPU, and 0.4 s for a GPU."""
    check_time(2, lambda: seconds(["for i in kl.static_range(3000):", "    v = v * 1.5 + i"], "float32"))


def test_values_shared_by_many_nests_are_computed_once():
    """Each sum depends on everything before it: 250,000 operations, if each nest recomputed them. Where vectors have
    256 bits, a nest takes two turns, and repeats the last few operations of others."""
    lines = [line for i in range(500) for line in (f"v = v * 3 + {i}", "v += kl.sum(v)")]
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    text = "def kernel(x, out):\n" + "".join(
        f"    {line}\n" for line in ["j = kl.arange(0, 64)", "v = kl.load(x + j)", *lines, "kl.store(out + j, v)"]
    )
    compiled = kiln.jit(kernel_of(text).fn)[(1,)](x, out)
    llir = compiled.asm["llir"]
    assert 500 <= llir.count(" mul ") < (4000 if " mul <32 x i32> " in llir else 600)
    expected = x.astype(np.int64)
    for i in range(500):
        expected = expected * 3 + i
        expected = (expected + expected.sum()) & 0xFFFFFFFF
    np.testing.assert_array_equal(out, expected.astype(np.uint32).view(np.int32))


def test_five_hundred_functions():
    """Each has a hundred instructions and is correct."""
    check_time(2, lambda: seconds(["v = kl.sin(v) + j", *["v = kl.exp(kl.sin(v)) + j"] * 250], "float32"))
    x, out = np.linspace(-900, 900, 64).astype(np.float32), np.zeros(64, np.float32)
    lines = [f"total += kl.sin(v * {i})" for i in range(1, 41)]
    text = "def kernel(x, out):\n" + "".join(
        f"    {line}\n"
        for line in ["j = kl.arange(0, 64)", "v = kl.load(x + j)", "total = v * 0", *lines, "kl.store(out + j, total)"]
    )
    launch(text, x, out)
    exact = sum(np.sin((x * np.float32(i)).astype(np.float64)) for i in range(1, 41))
    np.testing.assert_allclose(out, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", [49, 60, 80, 100])
def test_a_long_chain_of_elif(count):
    """Each branch is a block nested in the previous one: plans of many blocks once lost those of the outer ones."""
    lines = ["n = kl.load(x)", "v = 0", "if n == 0:", "    v = 1"]
    for i in range(1, count):
        lines += [f"elif n == {i}:", f"    v = {i * 7}"]
    text = "def kernel(x, out):\n" + "".join(f"    {line}\n" for line in [*lines, "kl.store(out, v)"])
    for n, expected in ((0, 1), (1, 7), (count - 1, (count - 1) * 7), (count, 0)):
        out = np.zeros(1, np.int32)
        launch(text, np.array([n], np.int32), out)
        assert out[0] == expected


@pytest.mark.parametrize(
    "lines", [["v = " + " + ".join(["v"] * 600)], ["n = kl.load(x)", "if n == 0:", "    v = j", *(
        line for i in range(1, 200) for line in (f"elif n == {i}:", f"    v = j + {i}"))]], ids=["terms", "elifs"]
)  # fmt: skip
def test_too_deep_nesting_is_rejected_with_its_location(lines):
    with pytest.raises(CompilationError, match="nested less deeply") as caught:
        seconds(lines, "int32")
    assert caught.value.location is not None and caught.value.hint.startswith("split it")

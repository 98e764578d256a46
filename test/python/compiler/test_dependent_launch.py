"""Programmatic dependent launch: where a kernel waits for the grid before it and lets the next one start."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, knobs


@kiln.jit
def plain(x, out, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, 2 * kl.load(x + i))


@kiln.jit
def both(x, out, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.extra.cuda.gdc_wait()
    y = 2 * kl.load(x + i)
    kl.store(out + i, y)
    kl.extra.cuda.gdc_launch_dependents()


@kiln.jit
def wait_late(x, out, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    y = 2 * kl.load(x + i)
    kl.extra.cuda.gdc_wait()
    kl.store(out + i, y)


@kiln.jit
def trigger_early(x, out, BLOCK: kl.constexpr):
    kl.extra.cuda.gdc_launch_dependents()
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, 2 * kl.load(x + i))


@kiln.jit
def combine(a, b):
    kl.extra.cuda.gdc_wait()
    return a + b


@kiln.jit
def waits_in_a_sum(x, out, BLOCK: kl.constexpr):
    kl.store(out, kl.reduce(kl.load(x + kl.arange(0, BLOCK)), 0, combine))


@kiln.jit
def asks_first(x, out, BLOCK: kl.constexpr):
    first = kl.program_id(0) * BLOCK
    kl.prefetch(x + first + kl.arange(0, BLOCK // 32) * 32)
    i = first + kl.arange(0, BLOCK)
    kl.store(out + i, 2 * kl.load(x + i))


SAID = [both, wait_late, trigger_early]


def ptx_of(kernel, target: str, **options) -> str:
    with knobs.scope(target=target, stage_arrays=True, ptxas="none"):
        return kernel.warmup(kl.float32, kl.float32, BLOCK=1024, grid=(1,), **options).asm["ptx"]


def steps(ptx: str) -> list[str]:
    """The steps of a thread that concern memory or other grids, in order."""
    found = re.findall(r"griddepcontrol\.(wait|launch_dependents)|\b(ld|st|prefetch)\.global", ptx)
    names = [control or access for control, access in found]
    return [name for before, name in zip(["", *names], names, strict=False) if name != before]


@pytest.mark.parametrize(
    "kernel, order",
    [
        (plain, ["wait", "ld", "launch_dependents", "st"]),
        (both, ["wait", "ld", "st", "launch_dependents"]),
        (wait_late, ["ld", "launch_dependents", "wait", "st"]),
        (trigger_early, ["launch_dependents", "wait", "ld", "st"]),
        # What is asked for may still be written.
        (asks_first, ["prefetch", "wait", "ld", "launch_dependents", "st"]),
    ],
)
def test_each_occurs_once_where_the_kernel_has_it(kernel, order):
    ptx = ptx_of(kernel, "sm_90a", pdl=True)
    assert steps(ptx) == order
    assert ptx.count("griddepcontrol.") == 2
    # Before the wait, another grid may still be writing what this one reads.
    assert "ld.global.nc" not in ptx


@pytest.mark.parametrize("kernel", SAID)
@pytest.mark.parametrize("target, options", [("sm_90a", {})] + [(f"sm_{n}", {"pdl": True}) for n in (80, 86, 89)])
def test_without_dependent_launch_there_is_neither_op(kernel, target, options):
    assert steps(ptx_of(kernel, target, **options)) == ["ld", "st"]


@pytest.mark.cpu
@pytest.mark.parametrize("kernel", [*SAID, asks_first])
def test_a_processor_ignores_them(kernel):
    x = np.arange(4096, dtype=np.float32)
    out = np.zeros_like(x)
    kernel[(4,)](x, out, BLOCK=1024)
    np.testing.assert_array_equal(out, 2 * x)


def test_they_have_no_place_in_a_combine_function():
    with pytest.raises(errors.CompilationError, match=r"got gdc_wait in combine"):
        ptx_of(waits_in_a_sum, "sm_90a")

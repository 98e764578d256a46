"""Which pointers a kernel may write through, as reported to torch.compile for a launch: all pointers that the address
of a store can derive from."""

from __future__ import annotations

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import _kiln
from kiln.kernels.launches import launches_of


@kiln.jit
def helper(p, value):
    kl.store(p, value)


@kiln.jit
def stores(a, b, c, n, flag, HOW: kl.constexpr):
    i = kl.arange(0, 16)
    value = kl.load(a + i)
    if HOW == "one":
        kl.store(b + i, value)
    elif HOW == "called":
        helper(c + i, value)
    elif HOW == "branch":
        p = b
        if flag > 2:
            p = c
        kl.store(p + i, value)
    elif HOW == "select":
        kl.store(kl.where(i < n, b + i, c + i), value)
    elif HOW == "loop":
        p = b + i
        for _ in range(n):
            kl.store(p, value)
            p += 16
    elif HOW == "swapped":
        p = b
        q = c
        for _ in range(n):
            kl.store(p + i, value)
            p, q = q, p
    elif HOW == "atomic":
        kl.atomic_max(c + i, value)
    elif HOW == "exchange":
        kl.atomic_cas(c, 0.0, 1.0)
    elif HOW == "descriptor":
        kl.make_tensor_descriptor(b, [16, 16], [16, 1], [4, 4]).store([0, 0], kl.zeros((4, 4), kl.float32))
    elif HOW == "block pointer":
        kl.store(kl.make_block_ptr(c, (16,), (1,), (0,), (16,), (0,)), value)
    elif HOW == "address":
        kl.store(kl.load(b.to(kl.pointer_type(kl.int64))).to(kl.pointer_type(kl.float32)), 1.0)


WRITTEN = {"nothing": [], "one": [1], "called": [2], "branch": [1, 2], "select": [1, 2], "loop": [1], "swapped": [1, 2],
           "atomic": [2], "exchange": [2], "descriptor": [1], "block pointer": [2], "address": [0, 1, 2]}  # fmt: skip


@pytest.mark.parametrize("how", WRITTEN)
def test_written(how):
    arrays = [np.zeros(256, np.float32) for _ in range(3)]
    (launch,) = launches_of(lambda: stores[(1,)](*arrays, 5, 7, HOW=how))
    text = str(launch.compile("cpu", "opt").output)
    assert _kiln.Module.parse(text).written_pointers() == WRITTEN[how]


def test_the_library_writes_its_outputs():
    from kiln.kernels.norm import residual_rms_norm

    x, weight = np.zeros((4, 64), np.float32), np.zeros(64, np.float32)
    (launch,) = launches_of(lambda: residual_rms_norm(x, x, weight))
    for target in ("cpu", "sm_90a"):
        module = _kiln.Module.parse(str(launch.compile(target, "opt").output))
        assert module.written_pointers() == [3, 4]  # x, residual, weight, y, total

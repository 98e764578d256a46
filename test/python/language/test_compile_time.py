"""The time to compile grows with the length of a kernel, whatever refers to what in it. As processor time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from running import launch

pytestmark = pytest.mark.cpu


def seconds(lines: list[str], dtype: str) -> float:
    """The processor time of a kernel of these lines about the tile `v`, which it loads and stores."""
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
def test_a_value_used_twice_by_what_is_used_twice(lines):
    """Tens of millions of paths lead from the last value to the first."""
    assert seconds(lines, "int32") < 1

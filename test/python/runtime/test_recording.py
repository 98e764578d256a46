"""Recording launches without running them."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.runtime.jit import recording


@kiln.jit
def fill(x, value, N: kl.constexpr):
    kl.store(x + kl.arange(0, N), value)


def test_a_block_records_launches_and_makes_none():
    x = np.zeros(4, np.float32)
    seen = []

    def record(kernel, grid):
        return lambda *args, **kwargs: seen.append((kernel, grid, args[1:], kwargs))

    with recording(record):
        fill[(1,)](x, 2.0, N=4)
        with recording(lambda kernel, grid: lambda *args, **kwargs: seen.append("inner")):
            fill[(1,)](x, 3.0, N=4)
        fill[3,](x, 4.0, 4)
        assert not x.any()
        fill.run(x, 5.0, grid=(1,), N=4)
    assert seen == [(fill, (1,), (2.0,), {"N": 4}), "inner", (fill, (3,), (4.0, 4), {})]
    assert (x == 5).all()
    fill[(1,)](x, 6.0, N=4)
    assert (x == 6).all() and len(seen) == 3


def test_a_block_that_raises_ends_too():
    x = np.zeros(4, np.float32)
    with pytest.raises(ZeroDivisionError), recording(lambda kernel, grid: lambda *_, **__: 1 / 0):
        fill[(1,)](x, 1.0, N=4)
    fill[(1,)](x, 1.0, N=4)
    assert (x == 1).all()

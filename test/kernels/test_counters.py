"""Counters that launches find and leave at zero: concurrent launches never share them."""

import itertools
import sys
import types

import numpy as np
import pytest
from kiln.kernels import counters

pytestmark = pytest.mark.host


class FakeTorch(types.ModuleType):
    """The part of torch that counters need; arrays are numpy's with torch's names."""

    def __init__(self):
        super().__init__("torch")
        self.int32, self.stream, self.capturing, self.cleared = np.int32, 0, False, 0
        self.graph = None  # what the driver reports about a capturing stream
        self.cuda = types.SimpleNamespace(
            is_current_stream_capturing=lambda: self.capturing,
            current_stream=lambda device: types.SimpleNamespace(cuda_stream=self.stream, synchronize=self._synchronize),
        )

    def _synchronize(self):
        assert not self.capturing, "a stream that captures cannot be waited for"

    def zeros(self, count, dtype, device):
        self.cleared += 1
        return Counters(np.zeros(count, dtype))


class Counters:
    def __init__(self, array):
        self.array = array

    def numel(self):
        return len(self.array)

    def __getitem__(self, index):
        return Counters(self.array[index])


@pytest.fixture
def torch(monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(counters, "is_torch", lambda like: True)
    for name, value in (("_supplies", {}), ("_held", {}), ("_captured", {}), ("_cleared", []), ("_short", set())):
        monkeypatch.setattr(counters, name, value)
    monkeypatch.setattr(counters, "_graph_of", lambda stream: fake.graph)
    return fake


class Device:
    type = "cuda"


class Like:
    device = Device()


def share_memory(one, other):
    return np.shares_memory(one.array, other.array)


def test_counters_are_of_one_stream(torch):
    """Launches that may run concurrently must not share counters."""
    like = Like()
    first = counters.zeros(100, like)
    assert first.numel() == 100 and share_memory(first, counters.zeros(50, like)), "one after the other"
    torch.stream = 1
    other = counters.zeros(100, like)
    larger = counters.zeros(5000, like)
    assert not share_memory(first, other) and not share_memory(first, larger)
    torch.stream = 0
    assert share_memory(first, counters.zeros(100, like))
    assert torch.cleared == 1


def test_counters_of_a_graph_are_its_own(torch):
    """A graph may be replayed concurrently with anything, so its launches share with none. Nothing is cleared during
    capture while counters are left, and a graph's counters are never freed."""
    like = Like()
    before = counters.zeros(100, like)
    torch.capturing = True
    captured = [counters.zeros(100, like) for _ in range(20)]
    assert torch.cleared == 1
    torch.capturing = False
    every = [before, *captured, counters.zeros(1 << 20, like)]
    assert not any(share_memory(one, other) for one, other in itertools.combinations(every, 2))
    kept = [memory.array for memory in counters._cleared]
    assert all(any(np.shares_memory(each.array, memory) for memory in kept) for each in every)


def test_launches_that_a_stream_captures_follow_each_other(torch):
    """Launches of one graph and stream share counters; those of another stream or graph may run concurrently."""
    like = Like()
    before = counters.zeros(100, like)
    torch.capturing, torch.graph = True, 7
    first = counters.zeros(100, like)
    assert share_memory(first, counters.zeros(50, like))
    larger = counters.zeros(500, like)
    torch.stream = 1
    beside = counters.zeros(100, like)
    torch.graph = 8
    later = counters.zeros(100, like)
    every = [before, first, larger, beside, later]
    assert not any(share_memory(one, other) for one, other in itertools.combinations(every, 2))
    assert torch.cleared == 1


def test_any_number_of_graphs_find_counters(torch):
    """The next call that is not captured refills what graphs have used up."""
    like = Like()
    counters.zeros(100, like)
    for graph in range(20):
        torch.capturing, torch.graph = True, graph
        counters.zeros(counters._SUPPLY // 4, like)
        torch.capturing = False
        counters.zeros(100, like)
    kept = [memory.array for memory in counters._cleared]
    assert torch.cleared == len(kept) <= 11, "a graph clears memory of its own"


def test_large_counts_do_not_use_up_the_supply(torch):
    like = Like()
    for _ in range(10):
        counters.zeros(counters._SUPPLY * 2, like)
        counters.zeros(100, like)
    assert torch.cleared <= 2


def test_a_first_call_that_is_captured_clears_its_own(torch):
    like = Like()
    torch.capturing = True
    one, other = counters.zeros(100, like), counters.zeros(100, like)
    assert torch.cleared == 2 and not share_memory(one, other)

"""One sample of one configuration: milliseconds of a launch. The race takes samples of its contestants in turn.

WallClock    the CPU target: as many launches as the clock needs to resolve them
EventClock   a GPU, between two events in its stream: used where something has to happen before each launch
GraphClock   a GPU, by replaying a graph: excludes the host's time; launch i works on copy i of all arrays, so that the
             L2 cache holds nothing that it would not hold in a real program's next launch
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from kiln import knobs

log = logging.getLogger("kiln.autotune")

# Duration of a sample of shorter launches: 50 to 500 times the resolution of clocks and events.
SAMPLE_MS = 0.25
GRAPH_MS = 0.5
MOST_LAUNCHES = 4096
# Duration of a burst: in the long run, a GPU's power limit determines its clocks.
SUSTAINED_MS = 100.0
# The part of a burst before the clocks have settled; until then they depend on what ran before (for 75 ms on an H200).
SETTLING = 2 / 3
# Total size of the copies of the arrays, in multiples of the L2 cache.
L2S = 3


class WallClock:
    """`launch()` returns when the kernel has run. `before()` and `after()` are not timed; if there are any, a sample is
    one launch. The first sample comes after `warmup` milliseconds of launches, at least two."""

    def __init__(
        self,
        launch: Callable[[], Any],
        before: Callable[[], Any] | None = None,
        after: Callable[[], Any] | None = None,
        warmup: float = 0.0,
        clock: Callable[[], int] = time.perf_counter_ns,
    ):
        self.launch, self.before, self.after = launch, before, after
        self.warmup, self.clock = warmup, clock
        self.launches = 0

    def __call__(self) -> float:
        if not self.launches:
            self._warm_up()
        return self._time(self.launches)

    def _warm_up(self) -> None:
        start = self.clock()
        self._time(1)
        last = self._time(1)
        while (self.clock() - start) / 1e6 < self.warmup:
            last = self._time(1)
        alone = self.before is not None or self.after is not None
        self.launches = 1 if alone else min(MOST_LAUNCHES, max(1, math.ceil(SAMPLE_MS / last)))

    def _time(self, launches: int) -> float:
        if self.before is not None:
            self.before()
        start = self.clock()
        for _ in range(launches):
            self.launch()
        spent = self.clock() - start
        if self.after is not None:
            self.after()
        return max(spent, 1) / 1e6 / launches


class EventClock:
    """Like WallClock, but with events in the current stream of a GPU. `device`: makes the events (`kiln.cuda`)."""

    def __init__(
        self,
        launch: Callable[[], Any],
        before: Callable[[], Any] | None = None,
        after: Callable[[], Any] | None = None,
        warmup: float = 0.0,
        device: Any = None,
    ):
        if device is None:
            from kiln import cuda as device
        self.launch, self.before, self.after, self.device = launch, before, after, device
        self.warmup, self.launches = warmup, 0

    def __call__(self) -> float:
        if not self.launches:
            self._time(1)
            last = self._time(1)
            for _ in range(min(MOST_LAUNCHES, int(self.warmup / last))):
                self._time(1)
            alone = self.before is not None or self.after is not None
            self.launches = 1 if alone else min(MOST_LAUNCHES, max(1, math.ceil(SAMPLE_MS / last)))
        return self._time(self.launches)

    def _time(self, launches: int) -> float:
        if self.before is not None:
            self.before()
        start, end = self.device.Event(), self.device.Event()
        start.record()
        for _ in range(launches):
            self.launch()
        end.record()
        self.device.synchronize()
        if self.after is not None:
            self.after()
        return max(end.elapsed_since(start), 1e-6) / launches


class GraphClock:
    """Replays a graph of launches, which torch captures at the first sample. `launches`: one for each set of arrays;
    launch i of the graph uses set i modulo their number."""

    def __init__(self, launches: Sequence[Callable[[], Any]], torch: Any = None, warmup: float = 0.0):
        self.sets, self.torch, self.warmup = list(launches), torch or sys.modules["torch"], warmup
        self.count = 0
        self._last = math.inf  # milliseconds of the last replay
        self._graph: Any = None
        self._stream: Any = None

    def __call__(self) -> float:
        if self._graph is None:
            self._capture()
        return self._replay() / self.count

    @property
    def sustained(self) -> Callable[[], float] | None:
        """A function that samples a burst; None if each replay lasts that long. Known from the first sample on."""
        return self._burst if self._last < SUSTAINED_MS else None

    def _burst(self) -> float:
        """A sample taken in back-to-back replays, after the GPU's clocks have settled under the load."""
        replays = max(2, math.ceil(SUSTAINED_MS / self._last))
        before = max(1, int(replays * SETTLING))
        with self.torch.cuda.stream(self._stream):
            for _ in range(before):
                self._graph.replay()
            spent = self._marked(lambda: [self._graph.replay() for _ in range(replays - before)])
        return max(spent, 1e-6) / (replays - before) / self.count

    def _capture(self) -> None:
        cuda = self.torch.cuda
        self._stream = cuda.Stream()
        self._stream.wait_stream(cuda.current_stream())
        with cuda.stream(self._stream):
            self.sets[0]()
            each = max(self._marked(lambda: [launch() for launch in self.sets[:8]]) / min(8, len(self.sets)), 1e-3)
            rounds = math.ceil(min(MOST_LAUNCHES, GRAPH_MS / each) / len(self.sets))
            self.count = max(1, rounds) * len(self.sets)
            graph = cuda.CUDAGraph()
            # Not `cuda.graph`, which first frees all of torch's cached memory. "thread_local": other threads load code.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for i in range(self.count):
                    self.sets[i % len(self.sets)]()
            except BaseException:
                with contextlib.suppress(Exception):
                    graph.capture_end()
                raise
            graph.capture_end()
            self._graph = graph
        spent = self._replay()
        while spent < self.warmup:
            spent += self._replay()

    def _replay(self) -> float:
        with self.torch.cuda.stream(self._stream):
            self._last = max(self._marked(self._graph.replay), 1e-6)
            return self._last

    def _marked(self, what: Callable[[], Any]) -> float:
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        what()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))


class Rotation:
    """Copies of the memory of a launch's arguments: as few as possible so that they and the original are at least L2S
    times the L2 cache. Tensors that share storage also share it in each copy. Only torch tensors on a GPU are copied.
    """

    def __init__(self, values: Sequence[Any], l2_bytes: int, torch: Any):
        self.torch = torch
        self.copies: list[dict[int, Any]] = []
        storages = {}
        for value in _tensors(values, torch):
            storage = value.untyped_storage()
            storages[storage.data_ptr()] = storage
        footprint = sum(storage.nbytes() for storage in storages.values())
        count = min(MOST_LAUNCHES, math.ceil(L2S * l2_bytes / footprint)) if footprint else 1
        try:
            for _ in range(1, count):
                self.copies.append({address: storage.clone() for address, storage in storages.items()})
        except torch.cuda.OutOfMemoryError:
            self.copies.clear()
            log.info("no memory for %d copies of the arrays: they are found in the L2 cache", count)

    def sets(self, values: Sequence[Any]) -> list[list[Any]]:
        """The original arguments, then the arguments of each copy."""
        return [list(values), *([_copied(value, copy, self.torch) for value in values] for copy in self.copies)]


def copies_arrays(values: Sequence[Any]) -> bool:
    """Whether a launch with these arguments copies host arrays to a GPU and back, which a graph cannot contain."""
    if not knobs.stage_arrays:
        return False
    return any(
        copies_arrays(value) if isinstance(value, tuple)
        else hasattr(value, "__array_interface__") or getattr(getattr(value, "device", None), "type", "") == "cpu"
        for value in values
    )  # fmt: skip


def _is_tensor(value: Any, torch: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cuda


def _tensors(values: Any, torch: Any) -> list[Any]:
    found = []
    for value in values:
        if _is_tensor(value, torch):
            found.append(value)
        elif isinstance(value, tuple):
            found += _tensors(value, torch)
        elif _is_tensor(getattr(value, "base", None), torch):
            found.append(value.base)
    return found


def _copied(value: Any, storages: Any, torch: Any) -> Any:
    if _is_tensor(value, torch):
        storage = storages[value.untyped_storage().data_ptr()]
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        return made.set_(storage, value.storage_offset(), value.size(), value.stride())
    if isinstance(value, tuple):
        items = [_copied(item, storages, torch) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(value, torch.Tensor) and _is_tensor(getattr(value, "base", None), torch):
        import copy

        made = copy.copy(value)
        made.base = _copied(value.base, storages, torch)
        return made
    return value

"""One sample: what it launches, and what counts as its time. Clocks and devices are simulated."""

from __future__ import annotations

import types

import numpy as np
import pytest
from kiln import knobs
from kiln.tune import clock


class Time:
    """Nanoseconds that pass only when the test says so."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now

    def passes(self, ms, log=None, what=""):
        def action():
            self.now += int(ms * 1e6)
            if log is not None:
                log.append(what)

        return action


def test_work_before_and_after_is_not_timed():
    time, log = Time(), []
    sample = clock.WallClock(
        time.passes(2.0, log, "run"), time.passes(50.0, log, "before"), time.passes(70.0, log, "after"), clock=time
    )
    assert sample() == 2.0 and sample() == 2.0
    assert log == ["before", "run", "after"] * 4, "two to warm up, and one for each sample"


def test_short_launches_are_timed_together():
    time, log = Time(), []
    sample = clock.WallClock(time.passes(0.01, log), clock=time)
    assert sample() == pytest.approx(0.01) and len(log) == 2 + 25
    sample()
    assert len(log) == 2 + 2 * 25
    time, log = Time(), []
    assert clock.WallClock(time.passes(4.0, log), clock=time)() == 4.0 and len(log) == 3


def test_warming_up_takes_as_long_as_asked():
    time, log = Time(), []
    clock.WallClock(time.passes(1.0, log), warmup=20.0, clock=time)()
    assert len(log) == 20 + 1


class Device:
    """A GPU's clock: launches take time in its stream."""

    def __init__(self):
        self.now = 0.0
        self.waited = 0

    def launch(self, ms):
        def action():
            self.now += ms

        return action

    def synchronize(self):
        self.waited += 1

    def Event(self):
        device = self

        class Event:
            def record(self):
                self.at = device.now

            def elapsed_since(self, start):
                return self.at - start.at

        return Event()


def test_marks_surround_only_the_launch():
    device = Device()
    sample = clock.EventClock(device.launch(2.0), device.launch(5.0), device.launch(7.0), device=device)
    assert sample() == 2.0 and device.waited == 3
    assert clock.EventClock(device.launch(0.01), device=device)() == pytest.approx(0.01)


class FakeTorch:
    """The part of torch's CUDA that a graph's clock uses: a capture records launches, a replay runs them."""

    def __init__(self):
        torch = self
        self.log, self.now, self.capturing = [], 0.0, None

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = torch.now

            def synchronize(self):
                pass

            def elapsed_time(self, end):
                return end.at - self.at

        class Stream:
            def wait_stream(self, other):
                torch.log.append("wait")

        class Graph:
            def capture_begin(self, capture_error_mode):
                assert capture_error_mode == "thread_local", "others compile and load meanwhile"
                torch.capturing = self.launches = []

            def capture_end(self):
                torch.capturing = None

            def replay(self):
                for launch in self.launches:
                    launch()

        class Context:
            def __init__(self, stream):
                assert isinstance(stream, Stream)

            def __enter__(self):
                pass

            def __exit__(self, *_):
                pass

        self.cuda = types.SimpleNamespace(
            Event=Event, Stream=Stream, CUDAGraph=Graph, stream=Context, current_stream=lambda: None
        )

    def launch(self, name, ms):
        def run():
            self.log.append(name)
            self.now += ms

        def action():
            if self.capturing is not None:
                self.capturing.append(run)
            else:
                run()

        return action


def test_replays_go_through_all_copies_of_the_arrays():
    torch = FakeTorch()
    sample = clock.GraphClock([torch.launch(name, 0.05) for name in "abc"], torch)
    assert sample() == pytest.approx(0.05)
    torch.log.clear()
    assert sample() == pytest.approx(0.05)
    assert torch.log == list("abc") * 4, "half a millisecond at least, each copy as often as any other"


def test_one_launch_that_is_long_is_replayed_alone():
    torch = FakeTorch()
    sample = clock.GraphClock([torch.launch("a", 3.0)], torch)
    sample()
    torch.log.clear()
    assert sample() == pytest.approx(3.0) and torch.log == ["a"]


def test_a_launch_that_fails_ends_its_capture():
    torch, calls = FakeTorch(), []

    def launch():
        calls.append(torch.capturing is not None)
        if torch.capturing is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clock.GraphClock([launch], torch)()
    assert calls[-1] and torch.capturing is None


def test_launches_that_copy_arrays_are_not_captured():
    host, here = np.zeros(4, np.float32), types.SimpleNamespace(device=types.SimpleNamespace(type="cuda"))
    there = types.SimpleNamespace(device=types.SimpleNamespace(type="cpu"))
    with knobs.scope(stage_arrays=True):
        assert clock.copies_arrays([here, 3, host]) and clock.copies_arrays([(here, (there, 1))])
        assert not clock.copies_arrays([here, 3, None, (here, 1.5)])
    assert not clock.copies_arrays([here, host])


class Warming(FakeTorch):
    """A GPU that slows down by half after 5 ms of uninterrupted work; reading the time is an interruption."""

    def __init__(self):
        super().__init__()
        torch, plain = self, self.cuda.Event
        self.busy = 0.0

        class Event(plain):
            def synchronize(self):
                torch.busy = 0.0

        self.cuda.Event = Event

    def launch(self, name, ms):
        def spend():
            self.now += ms * (1.5 if self.busy >= 5.0 else 1.0)
            self.busy += ms

        def action():
            (self.capturing.append if self.capturing is not None else lambda run: run())(spend)

        return action


def test_a_burst_shows_the_sustained_time_of_a_launch():
    torch = Warming()
    sample = clock.GraphClock([torch.launch("a", 0.2)], torch)
    assert sample.sustained is None, "how long a replay lasts is not known"
    assert sample() == pytest.approx(0.2)
    before = torch.now
    assert sample.sustained() == pytest.approx(0.3)
    assert clock.SUSTAINED_MS <= torch.now - before <= 1.6 * clock.SUSTAINED_MS
    assert sample() == pytest.approx(0.2)


def test_a_launch_as_long_as_a_burst_gets_no_longer_burst():
    torch = FakeTorch()
    sample = clock.GraphClock([torch.launch(name, 40.0) for name in "abc"], torch)
    assert sample() == pytest.approx(40.0) and sample.sustained is None

"""The CUDA device on a fake torch that only records calls: captures, bursts, clocks."""

import contextlib
import sys
import types

import device
import pytest


class Recorder:
    """A stand-in for torch with one GPU; `calls` records everything in order. A replay takes 3 ms."""

    def __init__(self):
        self.calls, self.clock, self.stream, self.pools = [], 0.0, "default", []
        recorder = self

        class Graph:
            def capture_begin(self, pool, capture_error_mode):
                recorder.pools.append(pool)
                recorder.calls.append(f"begin {capture_error_mode} on {recorder.stream}")

            def capture_end(self):
                recorder.calls.append("end")

            def replay(self):
                recorder.calls.append("replay")
                recorder.clock += 3.0

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = recorder.clock
                recorder.calls.append("record")

            def synchronize(self):
                recorder.calls.append("wait")

            def elapsed_time(self, other):
                return other.at - self.at

        class Stream:
            def wait_stream(self, other):
                recorder.calls.append("wait_stream")

        @contextlib.contextmanager
        def stream(_):
            recorder.stream = "side"
            yield
            recorder.stream = "default"

        properties = types.SimpleNamespace(name="GPU", L2_cache_size=60 << 20, multi_processor_count=132)
        self.cuda = types.SimpleNamespace(
            is_available=lambda: True, get_device_properties=lambda _: properties, Stream=Stream, stream=stream,
            current_stream=Stream, CUDAGraph=Graph, Event=Event, synchronize=lambda: self.calls.append("synchronize"),
        )  # fmt: skip
        self.cuda.graph_pool_handle = lambda: "pool"
        self.float32 = "float32"
        self.version = types.SimpleNamespace(cuda="13.0")
        self.device = lambda *names: names

    def zeros(self, count, dtype=None, device=None):
        """An array that takes 0.05 ms to read."""

        def read():
            self.calls.append(f"read {count}")
            self.clock += 0.05

        return types.SimpleNamespace(sum=read, zero_=lambda: None)


@pytest.fixture
def gpu(monkeypatch):
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "torch", recorder)
    monkeypatch.setattr(device, "nvml", lambda: None)
    monkeypatch.setattr(device, "_driver", lambda _: "580")
    return device.CudaDevice(), recorder


def test_a_capture_happens_on_a_side_stream(gpu):
    found, recorder = gpu
    replay = found.capture(lambda: recorder.calls.append(f"launch on {recorder.stream}"))
    assert recorder.calls == ["wait_stream", "begin thread_local on side", "launch on side", "end", "wait_stream"]
    replay()
    assert recorder.calls[-1] == "replay"


def test_a_launch_that_fails_ends_its_capture(gpu):
    found, recorder = gpu

    def fails():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        found.capture(fails)
    assert recorder.calls[-1] == "end"  # otherwise every later capture would fail too


def test_a_burst_leaves_its_first_replay_out(gpu):
    found, recorder = gpu
    replay = found.capture(lambda: None)
    recorder.calls.clear()
    timed = found.burst(replay, launches=100, replays=2)
    assert timed() == pytest.approx(2 * 3.0 * 1e3 / 200)
    assert recorder.calls == ["replay", "record", "replay", "replay", "record", "wait"]


def test_a_burst_settles_before_it_is_timed(gpu):
    """The host waits only at the end: between the replays that settle the clock and those that count, nothing rests."""
    found, recorder = gpu
    timed = found.burst(found.capture(lambda: None), launches=100, replays=2, settle=3)
    recorder.calls.clear()
    assert timed() == pytest.approx(2 * 3.0 * 1e3 / 200)
    assert recorder.calls == ["replay"] * 4 + ["record", "replay", "replay", "record", "wait"]


def test_a_burst_of_the_host_settles_too(monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(device=lambda name: name))
    monkeypatch.setattr(device.time, "perf_counter", lambda: calls.append("clock") or float(len(calls)))
    timed = device.HostDevice().burst(lambda: calls.append("replay"), launches=10, replays=2, settle=3)
    assert timed() == pytest.approx(3 * 1e6 / 20)
    assert calls == ["replay"] * 3 + ["clock"] + ["replay"] * 2 + ["clock"]


def test_a_burst_after_a_cache_flush_times_one_replay(gpu, monkeypatch):
    _, recorder = gpu
    found = device.FlushingDevice()
    assert recorder.pools == ["pool"]
    replay = found.capture(lambda: None)
    assert recorder.pools == ["pool", "pool"]
    clock = iter((0.0, 200e-6))
    monkeypatch.setattr(device.time, "perf_counter", lambda: next(clock))  # a launch takes 0.2 ms on the host
    timed = found.burst(replay, launches=100)
    recorder.calls.clear()
    assert timed() == pytest.approx(30.0)
    flush = f"read {3 * (60 << 20) // 4}"
    assert recorder.calls == [flush] * 8 + ["record", "replay", "record", "wait"]


def test_facts(gpu):
    found, _ = gpu
    assert found.facts() == {"gpu": "GPU", "driver": "580", "multiprocessors": 132, "l2_mb": 60.0, "cuda": "13.0"}
    assert found.state() == {}


def test_clocks_are_read_while_the_gpu_works(gpu):
    found, recorder = gpu
    library = types.SimpleNamespace(
        NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetClockInfo=lambda _, kind: recorder.calls.append("clock") or {1: 1980, 2: 3201}[kind],
        nvmlDeviceGetPowerUsage=lambda _: 512_345, nvmlDeviceGetTemperature=lambda *_: 44,
    )  # fmt: skip
    found._nvml = (library, "handle")
    state = found.state(found.capture(lambda: None))
    assert state == {"sm_mhz": 1980, "memory_mhz": 3201, "watts": 512.3, "celsius": 44}
    calls = [call for call in recorder.calls if call in ("replay", "clock", "synchronize")]
    assert calls == ["replay"] * 4 + ["clock"] * 2 + ["synchronize"]


def test_no_gpu_says_how_to_try_without(gpu, monkeypatch):
    _, recorder = gpu
    recorder.cuda.is_available = lambda: False
    with pytest.raises(SystemExit, match="--device cpu"):
        device.CudaDevice()

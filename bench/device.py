"""What the GPU method needs from a device: arrays in sets, graphs of launches, timed bursts, facts about the machine.

`CudaDevice` is the real one. `HostDevice` runs the same rows on torch's CPU tensors with the wall clock: it is how the
whole suite is tried on a machine without a GPU; its figures mean nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import measure

Launch = Callable[[], None]


def nvml() -> Any:
    """The NVML module and the handle of device 0, or None where there is no such package or no driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:  # a missing package, a missing library, or NVML's own error class: all mean "not here"
        return None


class CudaDevice:
    """Device 0 through torch."""

    name = "cuda"
    graph_us, burst_us = 1500.0, 4000.0

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("torch sees no CUDA device (--device cpu tries the suite without one)")
        self.torch = torch
        self.device = torch.device("cuda", 0)
        self.properties = torch.cuda.get_device_properties(0)
        self.l2_bytes = self.properties.L2_cache_size
        self.multiprocessors = self.properties.multi_processor_count
        self._side = torch.cuda.Stream()
        self._nvml = nvml()
        self._pool: Any = None

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    @contextlib.contextmanager
    def capturing_stream(self) -> Iterator[None]:
        """Runs a block on the stream that launches are captured on, ordered with the work of the current stream."""
        self._side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(self._side):
            yield
        self.torch.cuda.current_stream().wait_stream(self._side)

    def capture(self, enqueue: Launch) -> Callable[[], None]:
        """A graph of what ``enqueue`` launches; the result replays it on the current stream.

        Not torch.cuda.graph(): that collects garbage on every entry, which takes longer than capturing.
        """
        torch = self.torch
        graph = torch.cuda.CUDAGraph()
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                enqueue()
            except BaseException:
                with contextlib.suppress(Exception):
                    graph.capture_end()
                raise
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._side)
        return graph.replay

    def burst(self, replay: Callable[[], None], launches: int, replays: int, settle: int = 0) -> Callable[[], float]:
        """A function that times ``replays`` replays after one and ``settle`` more untimed, in microseconds per launch.

        All are enqueued at once, so that the GPU does not rest in between; its queue holds a thousand.
        """
        event = self.torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)

        def timed() -> float:
            for _ in range(1 + settle):
                replay()
            start.record()
            for _ in range(replays):
                replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e3 / (launches * replays)

        return timed

    def state(self, busy: Callable[[], None] | None = None) -> dict[str, float]:
        """Clocks and power while ``busy`` runs (it only enqueues)."""
        if self._nvml is None:
            return {}
        library, handle = self._nvml
        if busy is not None:
            for _ in range(4):
                busy()
        facts = {
            "sm_mhz": library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM),
            "memory_mhz": library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_MEM),
            "watts": round(library.nvmlDeviceGetPowerUsage(handle) / 1e3, 1),
            "celsius": library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU),
        }
        self.synchronize()
        return facts

    def facts(self) -> dict[str, Any]:
        return {
            "gpu": self.properties.name,
            "driver": _driver(self._nvml),
            "multiprocessors": self.multiprocessors,
            "l2_mb": round(self.l2_bytes / 2**20, 1),
            "cuda": self.torch.version.cuda,
        }


class FlushingDevice(CudaDevice):
    """Bursts of one replay after flushing the L2: as cold as sets that rotate past it, with few launches.

    What flushes the cache keeps the GPU busy for as long as the host takes to launch the replay, so that the GPU's
    timer, which starts after it, does not include the host. All graphs share their memory.
    """

    graph_us = 600.0

    def __init__(self) -> None:
        super().__init__()
        torch = self.torch
        self._cold = torch.zeros(3 * self.l2_bytes // 4, dtype=torch.float32, device=self.device)
        self._pool = torch.cuda.graph_pool_handle()
        one = torch.zeros(1, device=self.device)
        # The pool lives as long as one of its graphs does.
        self._keeper = self.capture(one.zero_)
        self._flush_us = min(self._elapsed(self._flush) for _ in range(5))

    def _flush(self) -> None:
        self._cold.sum()

    def _elapsed(self, enqueue: Launch) -> float:
        event = self.torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        enqueue()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def state(self, busy: Callable[[], None] | None = None) -> dict[str, float]:
        return {}

    def burst(
        self, replay: Callable[[], None], launches: int, replays: int = 1, settle: int = 0
    ) -> Callable[[], float]:
        """A function that times one replay, in microseconds per launch; flushing is all that runs before it."""
        event = self.torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        self.synchronize()
        began = time.perf_counter()
        replay()
        host_us = (time.perf_counter() - began) * 1e6
        self.synchronize()
        flushes = min(20, 2 + int(1.5 * host_us / self._flush_us))

        def timed() -> float:
            for _ in range(flushes):
                self._flush()
            start.record()
            replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e3 / launches

        return timed


class HostDevice:
    """torch's CPU tensors; a graph is the list of launches."""

    name = "cpu"
    graph_us = burst_us = 10.0
    multiprocessors = 4
    l2_bytes = 1 << 16

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.device = torch.device("cpu")

    def synchronize(self) -> None:
        pass

    def capture(self, enqueue: Launch) -> Callable[[], None]:
        enqueue()
        return enqueue

    def burst(self, replay: Callable[[], None], launches: int, replays: int, settle: int = 0) -> Callable[[], float]:
        def timed() -> float:
            for _ in range(settle):
                replay()
            start = time.perf_counter()
            for _ in range(replays):
                replay()
            return (time.perf_counter() - start) * 1e6 / (launches * replays)

        return timed

    def state(self, busy: Callable[[], None] | None = None) -> dict[str, float]:
        return {}

    def facts(self) -> dict[str, Any]:
        return {"gpu": f"none ({platform.processor() or platform.machine()})", "driver": "none"}


def make_device(name: str) -> Any:
    return HostDevice() if name == "cpu" else CudaDevice()


def _driver(handle: Any) -> str:
    if handle is not None:
        version = handle[0].nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else version
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip() or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def environment(device: Any) -> dict[str, Any]:
    """What is recorded with every run: the machine, versions, commit, method."""
    from importlib import metadata

    def version(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "not installed"

    import kiln

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        **device.facts(),
        "kiln": kiln.__version__,
        "torch": device.torch.__version__,
        "triton": version("triton"),
        "quack": version("quack-kernels"),
        "python": platform.python_version(),
        "commit": measure.commit(),
        "method": measure.METHOD,
    }


class Maker:
    """Makes a family's inputs: every array gets a leading axis of sets. Random normal values, seeded: never zeros."""

    def __init__(self, device: Any, sets: int, dtype: str, seed: int = 0):
        self.torch, self.device, self.sets = device.torch, device.device, sets
        self.dtype = getattr(device.torch, dtype)
        self.generator = device.torch.Generator(self.device)
        self.generator.manual_seed(seed)

    def normal(self, *shape: int) -> Any:
        return self.torch.randn((self.sets, *shape), dtype=self.dtype, device=self.device, generator=self.generator)

    def positive(self, *shape: int) -> Any:
        return self.torch.rand((self.sets, *shape), dtype=self.dtype, device=self.device, generator=self.generator)

    def full(self, shape: tuple[int, ...], value: float, dtype: str) -> Any:
        """Each set's array begins at a multiple of 16 bytes, as one that is allocated alone does."""
        array = self.torch.full((self.sets, *shape[:-1], -(-shape[-1] // 16) * 16), value,
                                dtype=getattr(self.torch, dtype), device=self.device)  # fmt: skip
        return array[..., : shape[-1]]

    def copies(self, array: Any) -> Any:
        """Copies of a numpy array, one per set."""
        one = self.torch.from_numpy(array).to(self.device)
        return one.unsqueeze(0).repeat(self.sets, *[1] * one.ndim)


class Standing:
    """Random normal values, made once: the inputs of many rows are slices of them."""

    def __init__(self, device: Any, elements: int):
        self.device, self.elements = device, elements
        self.values: dict[str, Any] = {}

    def of(self, dtype: str) -> Any:
        if dtype not in self.values:
            self.values[dtype] = Maker(self.device, 1, dtype).normal(self.elements)[0]
        return self.values[dtype]

    def slices(self, sets: int, dtype: str) -> Slices:
        return Slices(self.of(dtype), sets)


class Slices:
    """Makes a family's inputs from consecutive slices of an array, at multiples of 512 bytes."""

    GRAIN = 256  # elements of 16 bits

    def __init__(self, values: Any, sets: int):
        self.values, self.sets, self.at = values, sets, 0

    @classmethod
    def elements(cls, *shape: int) -> int:
        """How many elements of the array a set's slice takes."""
        return -(-math.prod(shape) // cls.GRAIN) * cls.GRAIN

    def normal(self, *shape: int) -> Any:
        each = self.elements(*shape)
        first, self.at = self.at, self.at + self.sets * each
        if self.at > self.values.numel():
            raise ValueError(f"expected at most {self.values.numel()} elements of inputs, got {self.at}")
        part = self.values[first : self.at].view(self.sets, each)[:, : math.prod(shape)]
        return part.unflatten(1, shape)

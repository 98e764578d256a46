"""The GPUs that the driver sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kiln.runtime import placement


def _runtime() -> Any:
    from kiln import _kiln

    placement.choose_driver()
    return _kiln


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a GPU.

    capability    compute capability, (9, 0)
    shared_bytes  shared memory one block may have
    registers     32-bit registers one block may have
    clusters      whether blocks can share their shared memory
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    max_threads: int
    max_threads_per_multiprocessor: int
    shared_bytes: int
    shared_bytes_per_multiprocessor: int
    registers: int
    l2_bytes: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    memory_bytes: int
    clusters: bool


def driver_problem() -> str:
    """Why no GPU can be used; empty if one can."""
    return _runtime().cuda_driver()["problem"]


def driver_version() -> tuple[int, int]:
    """The CUDA release that the driver supports, such as (13, 0); (0, 0) without a driver."""
    version = _runtime().cuda_driver()["version"]
    return version // 1000, version % 1000 // 10


def device_count() -> int:
    """The number of GPUs; 0 without a driver."""
    return _runtime().cuda_device_count()


def is_available() -> bool:
    return device_count() > 0


def current_device() -> int:
    """The GPU in use on this thread, else the first."""
    return _runtime().cuda_current_device()


def get_device_properties(device: int | None = None) -> DeviceProperties:
    """Properties of a GPU; of the current one if none is given."""
    return DeviceProperties(**_runtime().cuda_properties(current_device() if device is None else device))


def target(device: int | None = None) -> str:
    """The row of the target table that kernels on this GPU are compiled for, such as `sm_90a`."""
    _runtime()
    return placement.row_of(current_device() if device is None else device)


def synchronize(device: int | None = None) -> None:
    """Waits for one GPU, or for every one that Kiln has used in this process.

    Shows what kernels have printed. Raises `DeviceAssertError` if an assertion has failed since the last launch, and
    `DeviceLostError` if the device's context is lost.
    """
    _runtime().cuda_synchronize(device)


def current_stream(device: int | None = None) -> int:
    """The stream that launches go to, as the driver's handle: torch's current one, else the default stream (0)."""
    return _runtime().cuda_current_stream(current_device() if device is None else device)


class Event:
    """A mark in a stream: `end.elapsed_since(start)` is the time between two in milliseconds."""

    def __init__(self, device: int | None = None):
        self._event = _runtime().CudaEvent(current_device() if device is None else device)

    def record(self, stream: int | None = None) -> None:
        """Marks the current stream, or the one given by its handle."""
        self._event.record(stream)

    def synchronize(self) -> None:
        """Waits until the device has reached the mark."""
        self._event.synchronize()

    def elapsed_since(self, start: Event) -> float:
        return start._event.elapsed(self._event)

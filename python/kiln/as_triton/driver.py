"""`triton.runtime.driver`: the machine that programs see: a GPU if there is one, else the CPU.

For the CPU, "multiprocessors" are its worker threads and a "warp" is one thread. Registers and shared memory, which
programs use to compute how many instances are resident, limit nothing and are as large as a GPU's. A kernel uses at
least a line of 64 bytes.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any

from kiln.as_triton.backends import GPUTarget

__all__ = ["CpuDriver", "CudaDriver", "DriverConfig", "driver"]

_CPU_REGISTERS = 65536
_CPU_SHARED_BYTES = 256 * 1024
"""About the size of a core's own cache; larger tiles run, but more slowly."""


class Utils:
    """`driver.active.utils`."""

    def __init__(self, properties: Callable[[int], dict[str, Any]]):
        self._properties = properties

    def get_device_properties(self, device: Any = None) -> dict[str, Any]:
        """multiprocessor_count, max_shared_mem, max_num_regs, warpSize, sm_clock_rate (kHz), mem_clock_rate (kHz),
        mem_bus_width (bits)."""
        return self._properties(0 if device is None else getattr(device, "index", device) or 0)


class CpuDriver:
    """The CPU target."""

    def __init__(self) -> None:
        self.utils = Utils(self._properties)

    @staticmethod
    def _properties(device: int) -> dict[str, Any]:
        from kiln import _kiln, knobs

        _kiln.set_num_threads(knobs.num_threads)
        return {
            "multiprocessor_count": _kiln.num_threads(),
            "max_shared_mem": _CPU_SHARED_BYTES,
            "max_num_regs": _CPU_REGISTERS,
            "warpSize": 1,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", platform.machine(), 1)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return 0, 0

    def get_benchmarker(self) -> Callable[..., Any]:
        """For tuning: `do_bench` with less time for each configuration, a launch on the CPU being slow and steady."""
        from kiln.testing import do_bench

        return functools.partial(do_bench, warmup=1, rep=10)

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(_CPU_SHARED_BYTES * 64, dtype=torch.int8)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()


class CudaDriver(CpuDriver):
    """The GPUs that the NVIDIA driver sees."""

    @staticmethod
    def _properties(device: int) -> dict[str, Any]:
        from kiln import cuda

        facts = cuda.get_device_properties(device)
        return {
            "multiprocessor_count": facts.multiprocessors,
            "max_shared_mem": facts.shared_bytes,
            "max_num_regs": facts.registers,
            "warpSize": 32,
            "sm_clock_rate": facts.clock_khz,
            "mem_clock_rate": facts.memory_clock_khz,
            "mem_bus_width": facts.memory_bus_bits,
        }

    @staticmethod
    def is_active() -> bool:
        return _gpu_runs()

    def get_current_target(self) -> GPUTarget:
        from kiln import cuda

        major, minor = cuda.get_device_properties().capability
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_current_device(self) -> int:
        from kiln import cuda

        return cuda.current_device()

    def set_current_device(self, device: int) -> None:
        import torch

        torch.cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        from kiln import cuda

        return cuda.current_stream(device)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        from kiln import cuda

        return cuda.get_device_properties(device).capability

    def get_benchmarker(self) -> Callable[..., Any]:
        from kiln.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(256 << 20, dtype=torch.int8, device="cuda")


def _gpu_runs() -> bool:
    from kiln import cuda

    return cuda.is_available()


class DriverConfig:
    """`triton.runtime.driver`: `active` is the machine that programs are told of."""

    def __init__(self) -> None:
        self._default: Any = None
        self._active: Any = None

    @property
    def default(self) -> Any:
        if self._default is None:
            self._default = CudaDriver() if _gpu_runs() else CpuDriver()
        return self._default

    @property
    def active(self) -> Any:
        return self._active or self.default

    def set_active(self, driver: Any) -> None:
        """Replaces the object that programs query. Launches do not change: they run where their arrays are."""
        self._active = driver

    def reset_active(self) -> None:
        self._active = None


driver = DriverConfig()

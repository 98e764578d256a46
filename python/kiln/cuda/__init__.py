"""The GPUs of this machine, and CUDA C kernels on them.

    kiln.cuda.device_count()                   0 on a machine without a driver
    kiln.cuda.get_device_properties(0)         name, compute capability, multiprocessors, shared memory, …
    kiln.cuda.synchronize()                    waits; shows prints, raises failed assertions
    kiln.cuda.compile(source, "name")          CUDA C through NVRTC, launched like a kernel

devices.py   devices and their properties
nvrtc.py     NVRTC, found and loaded when first used
module.py    compiled CUDA C
"""

from __future__ import annotations

from kiln.cuda.devices import (
    DeviceProperties,
    Event,
    current_device,
    current_stream,
    device_count,
    driver_problem,
    driver_version,
    get_device_properties,
    is_available,
    synchronize,
    target,
)
from kiln.cuda.module import CudaKernel, compile
from kiln.cuda.nvrtc import CudaCompilationError, nvrtc_version

__all__ = [
    "CudaCompilationError",
    "CudaKernel",
    "DeviceProperties",
    "Event",
    "compile",
    "current_device",
    "current_stream",
    "device_count",
    "driver_problem",
    "driver_version",
    "get_device_properties",
    "is_available",
    "nvrtc_version",
    "synchronize",
    "target",
]

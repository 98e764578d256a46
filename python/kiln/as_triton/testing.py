"""Additions of `triton.testing` to `kiln.testing`: the peak rates of GPUs."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kiln import errors

__all__ = ["get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops"]


def _properties(device: Any) -> tuple[dict[str, Any], tuple[int, int]]:
    from kiln.as_triton.driver import CudaDriver, driver

    active = driver.active
    if not isinstance(active, CudaDriver):
        raise errors.UsageError("expected a GPU (because the CPU does not say what it could reach), found none")
    device = active.get_current_device() if device is None else device
    return active.utils.get_device_properties(device), active.get_device_capability(device)


def get_dram_gbps(device: Any = None) -> float:
    """Peak memory bandwidth of a GPU in GB/s."""
    facts, _ = _properties(device)
    return facts["mem_clock_rate"] * facts["mem_bus_width"] * 2 / 1e6 / 8


class _Machine(NamedTuple):
    """Multiply-adds of one multiprocessor per clock."""

    tensor: dict[int, int]
    """On tensor cores, dense, by the operands' bits (32: tf32)."""
    plain: dict[int, int]
    """On the general arithmetic units, by bits."""


_V100 = _Machine({16: 512}, {16: 128, 32: 64, 64: 32})
_T4 = _Machine({8: 1024, 16: 512}, {16: 128, 32: 64, 64: 2})
_A100 = _Machine({8: 2048, 16: 1024, 32: 512, 64: 64}, {16: 256, 32: 64, 64: 32})
_H100 = _Machine({8: 4096, 16: 2048, 32: 1024, 64: 128}, {16: 256, 32: 128, 64: 64})
_B200 = _Machine({8: 8192, 16: 4096, 32: 2048, 64: 64}, {16: 256, 32: 128, 64: 64})
_GRAPHICS = _Machine({8: 1024, 16: 512, 32: 128}, {16: 128, 32: 128, 64: 2})
_MACHINES = {(7, 0): _V100, (7, 5): _T4, (8, 0): _A100, (9, 0): _H100, (10, 0): _B200, (10, 3): _B200}


def _tflops(facts: dict[str, Any], clock_rate: float, per_clock: int) -> float:
    return 2 * per_clock * facts["multiprocessor_count"] * clock_rate * 1e3 / 1e12


def _bits(dtype: Any) -> int:
    """The width of a type of torch or of the language; `fp8e5` and `float8_e4m3fn` have 8 bits."""
    return next(int(digits) for digits in re.findall(r"\d+", str(dtype)))


def _reach(kind: str, dtype: Any, clock_rate: float, device: Any) -> float:
    facts, capability = _properties(device)
    table = getattr(_MACHINES.get(capability, _GRAPHICS), kind)
    if _bits(dtype) not in table:
        raise errors.UsageError(f"expected a type of {', '.join(map(str, sorted(table)))} bits, got {dtype}")
    return _tflops(facts, clock_rate, table[_bits(dtype)])


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """Peak TFLOP/s of a GPU's tensor cores at `clock_rate` (kHz), dense."""
    return _reach("tensor", dtype, clock_rate, device)


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """Peak TFLOP/s of a GPU's general arithmetic units at `clock_rate` (kHz)."""
    return _reach("plain", dtype, clock_rate, device)

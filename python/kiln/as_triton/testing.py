"""`triton.testing`, beside what `kiln.testing` has: what a GPU could reach."""

from __future__ import annotations

from typing import Any

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
    """GB/s that the memory of a GPU could deliver."""
    facts, _ = _properties(device)
    return facts["mem_clock_rate"] * facts["mem_bus_width"] * 2 / 1e6 / 8


# Multiply-adds of one multiprocessor in a clock, by the generation of the GPU: on tensor cores of 8, 16 and 32 bits
# (fp32 as tf32), then in plain arithmetic of 16 and 32 bits.
_TENSOR_CORES = {7: (1024, 512, 0), 8: (2048, 1024, 512), 9: (4096, 2048, 1024), 10: (8192, 4096, 2048)}
_PLAIN = {7: (128, 64), 8: (256, 128), 9: (256, 128), 10: (256, 128)}


def _tflops(facts: dict[str, Any], clock_rate: float, per_clock: int) -> float:
    return 2 * per_clock * facts["multiprocessor_count"] * clock_rate * 1e3 / 1e12


def _bits(dtype: Any) -> int:
    text = str(dtype)
    return next((bits for bits in (64, 32, 16, 8) if str(bits) in text.replace("float8", "8")), 32)


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """TFLOP/s of a GPU's tensor cores at `clock_rate` (kHz), dense."""
    facts, (major, _) = _properties(device)
    eight, sixteen, wide = _TENSOR_CORES.get(major, _TENSOR_CORES[10])
    return _tflops(facts, clock_rate, {8: eight, 16: sixteen, 32: wide}.get(_bits(dtype), 0))


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: Any = None) -> float:
    """TFLOP/s of a GPU's plain arithmetic at `clock_rate` (kHz)."""
    facts, (major, _) = _properties(device)
    half, single = _PLAIN.get(major, _PLAIN[10])
    return _tflops(facts, clock_rate, half if _bits(dtype) <= 16 else single)

"""`triton.runtime`: launching, tuning, and the driver of the machine."""

from __future__ import annotations

from kiln.as_triton.autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from kiln.as_triton.driver import driver
from kiln.as_triton.errors import InterpreterError, OutOfResources
from kiln.as_triton.jit import JITFunction, KernelInterface, MockTensor, TensorWrapper, reinterpret

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "autotune",
    "driver",
    "heuristics",
    "reinterpret",
]

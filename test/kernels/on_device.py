"""Runs the library on the GPU's torch tensors while the tests keep their numpy arrays.

`install()` replaces every library function by a wrapper: arrays go to the device with their strides and shared memory
(views of one array are views of one tensor there); outputs and everything that was written come back. What runs is the
function that a user of torch calls; its errors come out of the call.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest
from kiln.kernels import FAMILIES
from kiln.kernels.operator import Operator


def reason_to_skip() -> str:
    """The reason to skip, or an empty string."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.is_available() else "torch finds no CUDA device"


class Transfer:
    """The arrays of one call: each memory block that a numpy array views, and its copy on the device."""

    def __init__(self, device: str = "cuda"):
        self.device = device
        self.blocks: dict[int, tuple[np.ndarray, np.ndarray, Any]] = {}
        self.given: dict[int, tuple[Any, np.ndarray]] = {}

    def to_device(self, value: Any) -> Any:
        """A value with arrays replaced by tensors."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_device(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            moved = {name: self.to_device(item) for name, item in held.items()}
            return value if all(moved[name] is held[name] for name in held) else dataclasses.replace(value, **moved)
        if not isinstance(value, np.ndarray):
            return value
        import torch

        dtype = getattr(torch, str(value.dtype))
        if value.size == 0:
            tensor = torch.empty(value.shape, dtype=dtype, device=self.device)
        else:
            low, copy = self._block(value)
            if any(step < 0 for step in value.strides):
                pytest.skip("torch has no negative strides")
            steps = [step // value.itemsize for step in value.strides]
            offset = (value.__array_interface__["data"][0] - low) // value.itemsize
            tensor = torch.as_strided(copy.view(dtype), value.shape, steps, offset)
        self.given[id(tensor)] = (tensor, value)
        return tensor

    def _block(self, array: np.ndarray) -> tuple[int, Any]:
        """Address of the memory that `array` is a view of, and the copy of that memory as bytes on the device."""
        import torch

        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = np.lib.array_utils.byte_bounds(root)
        if low not in self.blocks:
            memory = np.frombuffer((ctypes.c_ubyte * (high - low)).from_address(low), np.uint8)
            self.blocks[low] = (root, memory, torch.from_numpy(memory.copy()).to(self.device))
        return low, self.blocks[low][2]

    def write_back(self) -> None:
        """Copies the device's data back to the arrays that may have been written."""
        for root, memory, copy in self.blocks.values():
            now = copy.cpu().numpy()
            if root.flags.writeable:
                memory[...] = now
            else:
                assert (memory == now).all(), "a read-only array was written"

    def to_host(self, value: Any) -> Any:
        """A result with tensors replaced by arrays; an argument's tensor becomes the argument's array again."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_host(item) for item in value)
        if id(value) in self.given:
            return self.given[id(value)][1]
        if not hasattr(value, "data_ptr"):
            return value
        if str(value.dtype) == "torch.bfloat16":
            import ml_dtypes
            import torch

            return value.view(torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
        return value.cpu().numpy()


class OnDevice(Operator):
    """A library function that takes numpy arrays and runs on the device."""

    def __init__(self, operator: Operator):  # for the same arguments, which are checked as tensors
        self.__dict__.update(vars(operator))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import kiln.cuda
        import torch

        transfer = Transfer()
        args, kwargs = transfer.to_device(args), {name: transfer.to_device(value) for name, value in kwargs.items()}
        result = super().__call__(*args, **kwargs)
        torch.cuda.synchronize()
        kiln.cuda.synchronize()
        transfer.write_back()
        return transfer.to_host(result)


def install() -> None:
    """From now on `from kiln.kernels.FAMILY import NAME` gives functions that run on the device."""
    for family in FAMILIES:
        package = importlib.import_module(f"kiln.kernels.{family}")
        for name in package.__all__:
            function = getattr(package, name)
            if isinstance(function, Operator) and not isinstance(function, OnDevice):
                setattr(package, name, OnDevice(function))

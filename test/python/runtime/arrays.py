"""Array look-alikes, each of which describes its memory in only one way."""

from __future__ import annotations

import ctypes

import numpy as np


class InterfaceOnly:
    """`__array_interface__` and nothing else."""

    def __init__(self, array: np.ndarray):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class DlpackOnly:
    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)):
        self.array = array
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__()


class CudaOnly:
    __cuda_array_interface__ = {"data": (4096, False), "typestr": "<f4", "shape": (4,), "version": 3}


class _Named:
    def __init__(self, name: str):
        self.name = name

    def __str__(self):
        return self.name


class _Storage:
    def __init__(self, array: np.ndarray):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def nbytes(self):
        return self.array.nbytes


class TensorLike:
    """The attributes of a torch tensor that a launch reads."""

    DTYPES = {name: _Named(f"torch.{name}") for name in ("float32", "float16", "bfloat16", "int64", "complex64")}

    def __init__(self, array: np.ndarray, dtype: str | None = None, device: str = "cpu"):
        self.array = array
        self.dtype = self.DTYPES[dtype or str(array.dtype)]
        self.device = _Named(device)
        self.is_cpu = device == "cpu"
        self.shape = array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return _Storage(self.array if self.array.base is None else self.array.base)

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)


def misaligned(count: int) -> np.ndarray:
    """A float32 array one byte off."""
    raw = (ctypes.c_char * (4 * count + 1))()
    return np.ndarray(count, np.float32, raw, 1)

"""An array in GPU memory for programs without torch: made from numpy, passed to kernels, read back.

    x = DeviceArray.of(np.ones(1000, np.float32))
    y = add(x, x).numpy()

The library's functions take and return it. It has a shape, dtype, strides and ``__cuda_array_interface__``, and no
arithmetic.
"""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from typing import Any


class _Driver:
    """The few functions of libcuda that allocate and copy, in the context that Kiln launches in."""

    def __init__(self) -> None:
        import kiln.cuda

        problem = kiln.cuda.driver_problem()
        if problem:
            raise RuntimeError(f"no GPU can be used: {problem}")
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.context = context

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")

    def enter(self) -> None:
        self.call("cuCtxSetCurrent", self.context)


@functools.lru_cache(maxsize=1)
def _driver() -> _Driver:
    return _Driver()


def _free(address: int) -> None:
    driver = _driver()
    driver.enter()
    driver.library.cuMemFree_v2(ctypes.c_uint64(address))


class DeviceArray:
    """An uninitialised array on the first GPU; deleting it frees its memory."""

    def __init__(self, shape: tuple[int, ...], dtype: Any):
        import numpy as np

        self.shape, self.dtype = tuple(int(side) for side in shape), np.dtype(dtype)
        self.itemsize, self.ndim = self.dtype.itemsize, len(self.shape)
        self.nbytes = math.prod(self.shape) * self.itemsize
        steps, step = [], self.itemsize
        for side in reversed(self.shape):
            steps.append(step)
            step *= max(side, 1)
        self.strides = tuple(reversed(steps))
        driver, address = _driver(), ctypes.c_uint64()
        driver.enter()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(self.nbytes, 1)))
        self.address = int(address.value)
        weakref.finalize(self, _free, self.address).atexit = False

    @classmethod
    def of(cls, array: Any) -> DeviceArray:
        """A copy of a numpy array."""
        import numpy as np

        host = np.ascontiguousarray(array)
        made = cls(array.shape, array.dtype)
        if host.nbytes:
            _driver().call(
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(made.address),
                ctypes.c_void_p(host.ctypes.data),
                ctypes.c_size_t(host.nbytes),
            )
        return made

    def numpy(self) -> Any:
        """A copy in host memory, taken after the GPU has finished."""
        import kiln.cuda
        import numpy as np

        host = np.empty(self.shape, self.dtype)
        kiln.cuda.synchronize()
        driver = _driver()
        driver.enter()
        if host.nbytes:
            driver.call(
                "cuMemcpyDtoH_v2",
                ctypes.c_void_p(host.ctypes.data),
                ctypes.c_uint64(self.address),
                ctypes.c_size_t(host.nbytes),
            )
        return host

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }

"""An array on another device."""

import kiln
import kiln.language as kl


class DeviceArray:
    """What a CUDA array shows of itself."""

    __cuda_array_interface__ = {"data": (0x1000, False), "shape": (64,), "typestr": "<f4", "version": 3}


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


kernel[(1,)](DeviceArray())

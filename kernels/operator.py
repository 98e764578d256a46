"""What every library function says about itself: the outputs it makes and the arguments it changes.

    @operator(outputs=lambda x, weight, **_: (Spec(x.shape, x.dtype),), mutates=())
    def rms_norm(x, weight, *, eps=1e-6, out=None): ...

    rms_norm.output_specs(x, weight)     # shapes and dtypes, nothing is run
    rms_norm.mutates                     # names of arguments written in place

Arrays are numpy's, torch's or DeviceArrays; outputs are made by the library of the first array argument, on its device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one output. ``dtype`` is a dtype of the inputs' library, or a name such as "float32"."""

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(side) for side in self.shape))


class Operator:
    """A library function together with ``output_specs`` and ``mutates``; call it like the function."""

    def __init__(self, function: Callable, outputs: Callable[..., tuple[Spec, ...]], mutates: tuple[str, ...]):
        functools.update_wrapper(self, function)
        self.function = function
        self._outputs = outputs
        self.mutates = mutates

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def output_specs(self, *args: Any, **kwargs: Any) -> tuple[Spec, ...]:
        """Shapes and dtypes of the outputs for these arguments; runs and allocates nothing."""
        kwargs.pop("out", None)
        return self._outputs(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Operator:
        """What `help` takes for a function, and shows the signature of."""
        return self

    def __repr__(self) -> str:
        return f"<kiln operator {self.function.__name__}>"


def operator(*, outputs: Callable[..., tuple[Spec, ...]], mutates: tuple[str, ...] = ()) -> Callable:
    """Decorates a library function with the function that gives its outputs' specs and the names it mutates."""
    return lambda function: Operator(function, outputs, mutates)


@functools.lru_cache(maxsize=256)
def _is_of_torch(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def is_torch(array: Any) -> bool:
    return _is_of_torch(type(array))


def on_device(array: Any) -> bool:
    """Whether an array is in a GPU's memory."""
    return bool(array.is_cuda) if is_torch(array) else hasattr(array, "__cuda_array_interface__")


def empty(spec: Spec, like: Any) -> Any:
    """An uninitialised array as ``spec`` says, of the library and on the device of ``like``."""
    if is_torch(like):
        import torch

        dtype = getattr(torch, spec.dtype) if isinstance(spec.dtype, str) else spec.dtype
        return torch.empty(spec.shape, dtype=dtype, device=like.device)
    import numpy
    from kiln.kernels.device_array import DeviceArray

    dtype = spec.dtype
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    return DeviceArray(spec.shape, dtype) if isinstance(like, DeviceArray) else numpy.empty(spec.shape, dtype)


def output(out: Any, spec: Spec, like: Any, name: str = "out") -> Any:
    """``out`` if the caller gave one (its shape checked), else a new array."""
    if out is None:
        return empty(spec, like)
    if tuple(out.shape) != spec.shape:
        raise ValueError(f"{name}: expected shape {spec.shape} (because of the inputs' shapes), got {tuple(out.shape)}")
    return out


def strides(array: Any) -> tuple[int, ...]:
    """Strides in elements, for numpy (bytes) and torch (elements) alike."""
    if is_torch(array):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def address(array: Any) -> int:
    """Where the first element lies, in the memory of the array's device."""
    if is_torch(array):
        return array.data_ptr()
    return array.__cuda_array_interface__["data"][0] if on_device(array) else array.ctypes.data


def upload(array: Any, like: Any) -> Any:
    """A numpy array as one of the library and on the device of ``like``."""
    if is_torch(like):
        import torch

        return torch.from_numpy(array).to(like.device)
    from kiln.kernels.device_array import DeviceArray

    return DeviceArray.of(array) if isinstance(like, DeviceArray) else array


def rows_of(array: Any, name: str = "x") -> tuple[int, int, int]:
    """``array`` seen as rows of its last dimension: (number of rows, row stride, column stride), in elements.

    Refuses leading dimensions that one stride cannot walk; nothing is ever copied.
    """
    if array.ndim == 0:
        raise ValueError(f"{name}: expected at least one dimension (because rows are reduced), got a scalar")
    shape, steps = tuple(array.shape), strides(array)
    rows, stride = 1, 0
    for side, step in zip(reversed(shape[:-1]), reversed(steps[:-1]), strict=True):
        if side == 1:
            continue
        if rows == 1:
            stride = step
        elif step != rows * stride and rows and side:
            raise ValueError(
                f"{name}: expected leading dimensions that collapse into one (because rows are addressed by one "
                f"stride), got strides {steps} for shape {shape}"
            )
        rows *= side
    return rows, stride, steps[-1]


def tile_side(n: int, multiple: int = 16) -> int:
    """The smallest legal side of a tile (2^k times an odd number up to 31) that is at least ``n``.

    A multiple of ``multiple`` (a power of two), so that it splits into whole vectors.
    """
    blocks = max(1, -(-n // multiple))
    shift = max(0, blocks.bit_length() - 5)
    return multiple * (-(-blocks >> shift) << shift)

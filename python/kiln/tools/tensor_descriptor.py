"""Tensor descriptors that the host makes and passes to a kernel: an array with its shape and strides, and the block
that one `load` or `store` moves."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

from kiln.errors import CompilationError, LaunchError


@dataclass
class TensorDescriptor:
    """A strided array that kernels access in blocks of one shape.

    base         the array (numpy, torch, …); its address is a multiple of 16
    shape        elements in each dimension, 1 to 5 of them
    strides      in elements; all but the last are multiples of 16 bytes, the last is 1
    block_shape  what one access moves
    padding      what is read outside the box: "zero" or "nan"
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"

    def __post_init__(self) -> None:
        for name in ("shape", "strides", "block_shape"):
            try:
                setattr(self, name, [operator.index(number) for number in getattr(self, name)])
            except TypeError:
                raise LaunchError(
                    f"tensor descriptor: expected integers in {name}, got {getattr(self, name)!r}"
                ) from None
        rank = len(self.shape)
        if not 1 <= rank <= 5:
            raise LaunchError(f"tensor descriptor: expected 1 to 5 dimensions, got {rank}")
        for name in ("strides", "block_shape"):
            if len(getattr(self, name)) != rank:
                raise LaunchError(
                    f"tensor descriptor: expected {rank} entries in {name} (because shape has that many), "
                    f"got {len(getattr(self, name))}"
                )
        if self.strides[-1] != 1:
            raise LaunchError(
                f"tensor descriptor: expected a last stride of 1 (because rows are read whole), got {self.strides[-1]}",
                hint="pass a contiguous copy",
            )
        from kiln.language.types import check_shape

        try:
            check_shape(self.block_shape)
        except CompilationError as error:
            raise LaunchError(f"tensor descriptor: {error.message}", hint=error.hint) from None
        if self.padding not in ("zero", "nan"):
            raise LaunchError(f"tensor descriptor: expected padding 'zero' or 'nan', got {self.padding!r}")

    @staticmethod
    def from_tensor(tensor: Any, block_shape: list[int], padding: str = "zero") -> TensorDescriptor:
        """The whole of an array, with its own strides."""
        shape, strides = _extents(tensor)
        return TensorDescriptor(tensor, shape, strides, block_shape, padding)


def _extents(array: Any) -> tuple[list[int], list[int]]:
    """Shape and strides of an array, in elements."""
    if hasattr(array, "stride"):  # torch
        return list(array.shape), list(array.stride())
    found = getattr(array, "__array_interface__", None) or getattr(array, "__cuda_array_interface__", None)
    if found is not None:
        shape, steps, size = found["shape"], found.get("strides"), int(found["typestr"][2:])
    elif hasattr(array, "strides") and hasattr(array, "itemsize"):
        shape, steps, size = array.shape, array.strides, array.itemsize
    else:
        raise LaunchError(
            f"tensor descriptor: expected an array that says its shape and strides, got {type(array).__name__}",
            hint="make TensorDescriptor(array, shape, strides, block_shape) of it",
        )
    if steps is None:
        return list(shape), [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    if any(step % size for step in steps):
        raise LaunchError(
            f"tensor descriptor: expected strides of whole elements (because rows are read element by element), got "
            f"{list(steps)} bytes for elements of {size}",
            hint="pass a contiguous copy",
        )
    return list(shape), [step // size for step in steps]

"""`triton.tools.ragged_tma`: block accesses that are bounded by a slice of an array's rows.

Triton's descriptors have two more dimensions, whose addresses wrap around at 2^64. Here a descriptor describes the
whole array, and each access goes through a descriptor that ends where the slice does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln import errors
from kiln.language.builtin import builtin
from kiln.language.semantic import descriptor
from kiln.language.semantic.arithmetic import binary, extremum
from kiln.language.semantic.build import error
from kiln.language.semantic.cast import cast
from kiln.language.semantic.operand import to_tensor
from kiln.language.types import int64
from kiln.language.values import tensor_descriptor, unwrap, unwrap_deep
from kiln.tools.tensor_descriptor import TensorDescriptor

__all__ = ["atomic_add_ragged", "create_ragged_descriptor", "load_ragged", "store_ragged"]


def create_ragged_descriptor(T: Any, block_shape: Sequence[int], ragged_dim: int = 0) -> TensorDescriptor:
    """The descriptor of an array of 2 or 3 dimensions, for the functions below. `ragged_dim` is the dimension that is
    divided into slices; it must not be the last."""
    rank = len(T.shape)
    if rank not in (2, 3) or len(block_shape) != rank:
        raise errors.LaunchError(
            f"create_ragged_descriptor: expected 2 or 3 dimensions and a block of the same rank, got {rank} and "
            f"{list(block_shape)}"
        )
    if not 0 <= (ragged_dim + rank if ragged_dim < 0 else ragged_dim) < rank - 1:
        raise errors.LaunchError(
            f"create_ragged_descriptor: expected a dimension before the last (because rows are read whole), got "
            f"{ragged_dim} of {rank}"
        )
    return TensorDescriptor.from_tensor(T, list(block_shape))


def _within(desc: Any, start: Any, size: Any, coords: Any, ragged_dim: Any, what: str) -> tuple[Any, list[Any]]:
    """A descriptor that ends where the slice does, and the position in it."""
    desc = descriptor.check_descriptor(desc, what)
    where, dim = list(unwrap_deep(coords)), unwrap(ragged_dim)
    rank = desc.type.rank
    if not isinstance(dim, int) or not -rank <= dim < rank - 1 or dim == -1:
        raise error(f"expected a dimension before the last in {what}, got {dim} of {rank}", argument="ragged_dim")
    if len(where) != rank:
        raise error(f"expected {rank} coordinates in {what}, got {len(where)}", argument="coords")
    where[dim] = binary("+", start, where[dim])
    shape = list(desc.shape)
    shape[dim] = extremum("min", shape[dim], cast(to_tensor(binary("+", start, size)), int64))
    return tensor_descriptor(desc.type, desc.base, shape, list(desc.strides)), where


@builtin
def load_ragged(TMA: Any, slice_off: Any, slice_size: Any, coords: Any, ragged_dim: Any = 0) -> Any:
    """Loads a block at `coords` of the slice T[slice_off : slice_off + slice_size]; elements past its end are zero."""
    return descriptor.load(*_within(TMA, slice_off, slice_size, coords, ragged_dim, "load_ragged"))


@builtin
def store_ragged(TMA: Any, slice_off: Any, slice_size: Any, coords: Any, data: Any, ragged_dim: Any = 0) -> None:
    """Stores a block at `coords` of the slice T[slice_off : slice_off + slice_size]; skips elements past its end."""
    descriptor.store(*_within(TMA, slice_off, slice_size, coords, ragged_dim, "store_ragged"), data)


@builtin
def atomic_add_ragged(TMA: Any, slice_off: Any, slice_size: Any, coords: Any, data: Any, ragged_dim: Any = 0) -> None:
    """Adds a block at `coords` of the slice T[slice_off : slice_off + slice_size]; skips elements past its end."""
    descriptor.atomic("add", *_within(TMA, slice_off, slice_size, coords, ragged_dim, "atomic_add_ragged"), data)

"""Tensor descriptors: creation, loads, stores and atomics of blocks, gather and scatter.

Loads, stores and atomics are single ops; gathers and scatters are expanded here to masked accesses through pointers.
"""

from __future__ import annotations

from typing import Any

from .. import values
from ..types import block_type, int32, int64, tensor_descriptor_type
from ..values import tensor, tensor_descriptor, unwrap
from . import options
from .arithmetic import binary, compare
from .build import emitter, error
from .cast import cast
from .memory import CONST, bool_as_byte, check_pointer_operand, is_block_pointer, scalar_list
from .operand import describe, to_tensor
from .promotion import broadcast_exact
from .shape import arange, broadcast_to, expand_at, shape_argument

MAX_RANK = 5


def make_handle(desc: tensor_descriptor) -> int:
    """The `!tile.desc` of a descriptor, made at the current insertion point."""
    attrs = {"padding": "#tile<padding nan>"} if desc.type.padding == "nan" else {}
    operands = [desc.base.handle, *(t.handle for t in desc._shape), *(t.handle for t in desc._strides)]
    return emitter().op("tile.make_desc", operands, [desc.type.mlir], attrs)[0]


def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding: Any) -> tensor_descriptor:
    what = "kl.make_tensor_descriptor"
    base = check_pointer_operand(base, what)
    if base.type.is_block() or is_block_pointer(base):
        raise error(f"expected a scalar pointer as base of {what}, got {base.type}", argument="base")
    if base.type.element_ty.is_bool():
        base = bool_as_byte(base)
    block = shape_argument(block_shape, "block_shape")
    rank = len(block)
    if not 1 <= rank <= MAX_RANK:
        raise error(f"expected between 1 and {MAX_RANK} dimensions in {what}, got {rank}", argument="block_shape")
    extents = scalar_list(shape, int64, f"shape of {what}")
    steps = [unwrap(s) for s in unwrap(strides)]
    for name, part in (("shape", extents), ("strides", steps)):
        if len(part) != rank:
            raise error(
                f"expected {name} to have one entry per dimension of block_shape {list(block)} in {what}, got"
                f" {len(part)}",
                argument=name,
            )
    if (isinstance(steps[-1], int) and steps[-1] != 1) or isinstance(steps[-1], tensor):
        raise error(
            f"expected 1 as last stride of {what} (because rows must be contiguous), got {describe(steps[-1])}",
            hint="write 1 itself, or declare the stride as kl.constexpr",
            argument="strides",
        )
    fill = options.padding(padding) or "zero"
    element = base.type.element_ty
    if fill == "nan" and not element.is_floating():
        raise error(
            f"expected padding_option='zero' (because {element} has no NaN), got 'nan'", argument="padding_option"
        )
    row = block[-1] * element.primitive_bitwidth // 8
    if row < 16:
        raise error(
            f"expected blocks with rows of 16 bytes or more in {what}, got {row} bytes ({block[-1]} x {element})",
            argument="block_shape",
        )
    ty = tensor_descriptor_type(block_type(element, block), fill, base.type.is_const())
    return tensor_descriptor(ty, base, extents, scalar_list(values.tuple(steps), int64, f"strides of {what}"))


def check_descriptor(desc: Any, what: str) -> tensor_descriptor:
    desc = unwrap(desc)
    if not isinstance(desc, tensor_descriptor):
        raise error(
            f"expected a tensor descriptor in {what}, got {describe(desc)}",
            hint="make one with kl.make_tensor_descriptor",
            value=desc,
        )
    return desc


def check_writable(desc: Any, what: str) -> tensor_descriptor:
    desc = check_descriptor(desc, what)
    if desc.type.is_const():
        raise error(f"expected a descriptor that may be written in {what}, got a const one", CONST, value=desc)
    return desc


def positions(desc: tensor_descriptor, offsets: Any, what: str) -> list[tensor]:
    found = scalar_list(offsets, int32, f"offsets of {what}")
    if len(found) != desc.type.rank:
        raise error(
            f"expected {desc.type.rank} offsets in {what} (one for each dimension of the descriptor), got {len(found)}",
            argument="offsets",
        )
    return found


def load(desc: Any, offsets: Any, cache_modifier: Any = "", eviction_policy: Any = "") -> tensor:
    desc = check_descriptor(desc, "a descriptor load")
    where = positions(desc, offsets, "a descriptor load")
    attrs = options.memory_attrs(cache_modifier, eviction_policy, store=False)
    handles = emitter().op(
        "tile.desc_load", [desc.handle, *(t.handle for t in where)], [desc.type.block_type.mlir], attrs
    )
    return tensor(handles[0], desc.type.block_type)


def block_value(desc: tensor_descriptor, value: Any, what: str) -> tensor:
    """A value converted to the descriptor's block shape and element type."""
    block = desc.type.block_type
    value = to_tensor(value, f"a tile as value of {what}")
    if not value.type.is_block():
        value = broadcast_to(value, block.shape)
    if tuple(value.type.shape) != tuple(block.shape):
        raise error(
            f"expected a value of the block's shape {list(block.shape)} in {what}, got {list(value.type.shape)}",
            argument="value",
        )
    return cast(value, block.element_ty)


def store(desc: Any, offsets: Any, value: Any) -> None:
    desc = check_writable(desc, "a descriptor store")
    where = positions(desc, offsets, "a descriptor store")
    data = block_value(desc, value, "a descriptor store")
    emitter().op("tile.desc_store", [desc.handle, *(t.handle for t in where), data.handle], [], {})


def pointers(desc: tensor_descriptor, where: list[Any]) -> tuple[tensor, tensor]:
    """Pointers to the elements of a block, and which of them lie in the array.

    A position is a scalar (the block's first element) or a tile of rank 1 (the rows to pick).
    """
    shape = list(desc.type.block_shape)
    for dim, place in enumerate(where):
        if place.type.is_block():
            shape[dim] = place.type.shape[0]
    rank = len(shape)
    offset, inside = None, None
    for dim, place in enumerate(where):
        index = place if place.type.is_block() else binary("+", arange(0, shape[dim]), place)
        index = cast(index, int64)
        for other in range(rank):
            if other != dim:
                index = expand_at(index, other if other < dim else len(index.type.shape))
        flag = binary("&", compare(">=", index, 0), compare("<", index, desc._shape[dim]))
        step = binary("*", index, desc._strides[dim])
        offset = step if offset is None else binary("+", offset, step)
        inside = flag if inside is None else binary("&", inside, flag)
    addresses = binary("+", desc.base, broadcast_exact(offset, shape))  # type: ignore[arg-type]
    return addresses, broadcast_exact(inside, shape)  # type: ignore[arg-type]


_WORDS = ("int32", "uint32", "int64", "uint64")
_ATOMIC_TYPES = {
    **dict.fromkeys(("add", "min", "max"), (*_WORDS, "fp16", "bf16", "fp32", "fp64")),
    **dict.fromkeys(("and", "or", "xor"), _WORDS),
}


def atomic(op: str, desc: Any, offsets: Any, value: Any) -> None:
    """Atomically combines a block into memory; returns nothing, like a hardware reduction."""
    from .atomics import kind_of

    what = f"a descriptor's atomic_{op}"
    desc = check_writable(desc, what)
    element = desc.type.element_ty
    if element.name not in _ATOMIC_TYPES[op]:
        raise error(f"expected one of {', '.join(_ATOMIC_TYPES[op])} in {what}, got {element}")
    where = positions(desc, offsets, what)
    data = block_value(desc, value, what)
    kind = {"kind": f"#tile<rmw {kind_of(op, element, what)}>"}
    emitter().op("tile.desc_reduce", [desc.handle, *(t.handle for t in where), data.handle], [], kind)


def rows(desc: Any, x_offsets: Any, y_offset: Any, what: str) -> tuple[tensor_descriptor, list[Any]]:
    desc = check_descriptor(desc, what)
    if desc.type.rank != 2 or desc.type.block_shape[0] != 1:
        raise error(f"expected a descriptor of blocks (1, N) in {what}, got {list(desc.type.block_shape)}")
    x_offsets = to_tensor(x_offsets, f"row numbers in {what}")
    if len(x_offsets.type.shape) != 1 or not x_offsets.type.scalar.is_int():
        raise error(f"expected row numbers in a tile of rank 1 in {what}, got {x_offsets.type}")
    return desc, [x_offsets, scalar_list(y_offset, int32, f"the column of {what}")[0]]


def gather(desc: Any, x_offsets: Any, y_offset: Any) -> tensor:
    """Reads the rows of the array with the given numbers."""
    from .memory import load as load_pointers

    desc, where = rows(desc, x_offsets, y_offset, "a descriptor gather")
    addresses, inside = pointers(desc, where)
    fill = float("nan") if desc.type.padding == "nan" else 0
    return load_pointers(addresses, inside, fill)


def scatter(desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> None:
    """Writes the rows of a tile to the rows of the array with the given numbers."""
    from .memory import store as store_pointers

    desc, where = rows(check_writable(desc, "a descriptor scatter"), x_offsets, y_offset, "a descriptor scatter")
    addresses, inside = pointers(desc, where)
    value = to_tensor(value)
    if tuple(value.type.shape) != tuple(addresses.type.shape):
        raise error(f"expected a value of shape {list(addresses.type.shape)} in a descriptor scatter, got {value.type}")
    store_pointers(addresses, value, inside)

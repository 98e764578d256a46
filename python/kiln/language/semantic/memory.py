"""Loads and stores through pointers and block pointers."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from .. import values
from ..types import block_type, int8, int32, int64, pointer_type
from ..values import is_number, tensor, unwrap
from . import options
from .build import array_i32, constant, emit, emit_many, error, shaped
from .cast import cast
from .operand import constexpr_int, describe, to_tensor
from .promotion import broadcast_pair
from .shape import broadcast_to, shape_argument

CONST = "drop the annotation kl.const from the parameter that it comes from, if it is meant to be written"


def optional(value: Any) -> Any:
    """None, or a tensor."""
    value = unwrap(value)
    return None if value is None else value


def is_block_pointer(value: tensor) -> bool:
    return isinstance(value.type, pointer_type) and value.type.element_ty.is_block()


def check_mask(mask: Any, what: str) -> tensor | None:
    if optional(mask) is None:
        return None
    mask = to_tensor(unwrap(mask), f"a mask of bools in {what}")
    if not mask.type.scalar.is_bool():
        raise error(f"expected a mask of bools in {what}, got {mask.type}", "compare, as in offsets < n", "mask")
    return mask


def check_pointer_operand(pointer: Any, what: str) -> tensor:
    value = unwrap(pointer)
    if isinstance(value, values.tensor_descriptor):
        raise error(
            f"expected a pointer in {what}, got a tensor descriptor",
            hint="use its methods desc.load and desc.store",
            value=value,
        )
    if is_number(value) or not isinstance(value, tensor) or not value.type.scalar.is_ptr():
        raise error(
            f"expected a pointer or a tile of pointers in {what}, got {describe(value)}",
            hint="pass an array, or test the argument with `is not None` first"
            if value is None
            else "add an offset to an argument that is an array, as in x_ptr + offsets",
            value=value,
        )
    return value


def bool_as_byte(pointer: tensor) -> tensor:
    """Bools are stored in memory as bytes."""
    element: Any = pointer.type.scalar
    if not element.element_ty.is_block() and element.element_ty.is_bool():
        return cast(pointer, pointer_type(int8, element.address_space, element.const))
    return pointer


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> tensor:
    pointer = check_pointer_operand(pointer, "kl.load")
    attrs = options.memory_attrs(cache_modifier, eviction_policy, store=False)
    padding = options.padding(padding_option)
    if is_block_pointer(pointer):
        if optional(mask) is not None or optional(other) is not None:
            raise error(
                "expected no mask and no other in a load through a block pointer (because its shape says what is"
                f" inside), got {'a mask' if optional(mask) is not None else 'other'}",
                hint="name the dimensions to check with boundary_check=(0, 1)",
                argument="mask" if optional(mask) is not None else "other",
            )
        return load_block(pointer, boundary_check, padding, attrs)
    rank = len(pointer.type.shape)
    if options.boundary(boundary_check, max(rank, 8)) or padding:
        raise error(
            "expected boundary_check and padding_option only with block pointers (because a plain pointer does not know"
            f" its array's shape), got {pointer.type}",
            hint="use mask= and other=",
            argument="padding_option" if padding else "boundary_check",
        )
    flags = check_mask(mask, "kl.load")
    if flags is None and optional(other) is not None:
        raise error(
            "expected a mask in kl.load (because other is what masked-out elements read), got other without a mask",
            argument="other",
        )
    pointer, flags = align_to_pointer(pointer, flags, "kl.load", "mask")
    was_bool = pointer.type.scalar.element_ty.is_bool()
    pointer = bool_as_byte(pointer)
    element = pointer.type.scalar.element_ty
    operands = [pointer] + ([flags] if flags is not None else [])
    fallback = None
    if optional(other) is not None:
        fallback = fallback_value(pointer, unwrap(other), element)
        operands.append(fallback)
    if unwrap(volatile):
        attrs["isVolatile"] = "unit"
    segments = [1, int(flags is not None), int(fallback is not None)]
    result = emit("tile.load", operands, shaped(pointer, element), attrs, segments)
    if was_bool:
        from ..types import int1

        return cast(result, int1)
    return result


def fallback_value(pointer: tensor, other: Any, element: Any) -> tensor:
    """`other`, converted to the element type and the shape of the pointers."""
    if is_number(other) and not element.is_ptr():
        return constant(shaped(pointer, element), other)
    value = to_tensor(other, "a number or a tensor as other of kl.load")
    value = cast(value, element)
    return align_to_pointer(pointer, value, "kl.load", "other")[1]


def align_to_pointer(pointer: tensor, value: tensor | None, what: str, name: str) -> tuple[tensor, Any]:
    """Brings pointers and a mask or `other` to one shape. As with operators, the pointers may be broadcast too."""
    if value is None:
        return pointer, None
    if not pointer.type.is_block():
        if value.type.is_block():
            raise error(
                f"expected a scalar {name} in {what} (because the pointer is a scalar), got {value.type}",
                hint="add offsets to the pointer: ptr + kl.arange(0, N)",
                argument=name,
            )
        return pointer, value
    have, wanted = value.type.shape, pointer.type.shape
    rank = max(len(have), len(wanted))
    for back, (x, y) in enumerate(zip(reversed(wanted), reversed(have), strict=False), 1):
        if x != y and 1 not in (x, y):
            raise error(
                f"expected {'a mask' if name == 'mask' else name} in {what} that broadcasts with the pointers (because"
                f" each element has its own), got {list(have)} for pointers {list(wanted)}, which differ in dimension"
                f" {rank - back}: {x} and {y}",
                argument=name,
            )
    return broadcast_pair(pointer, value, what)


def load_block(pointer: tensor, boundary_check: Any, padding: str | None, attrs: dict[str, str]) -> tensor:
    block = pointer.type.element_ty
    if block.element_ty.is_int() and padding == "nan":
        raise error(
            f"expected padding_option='zero' (because integers have no NaN), got 'nan' for {block.element_ty}",
            argument="padding_option",
        )
    dims = options.boundary(boundary_check, len(block.shape))
    if dims:
        attrs["boundary"] = array_i32(dims)
    if padding:
        attrs["padding"] = f"#tile<padding {padding}>"
    return emit("tile.block_load", [pointer], block, attrs)


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    pointer = check_pointer_operand(pointer, "kl.store")
    attrs = options.memory_attrs(cache_modifier, eviction_policy, store=True)
    if pointer.type.scalar.is_const():
        raise error("expected a pointer that may be written in kl.store, got a const one", CONST, "pointer")
    if is_block_pointer(pointer):
        if optional(mask) is not None:
            raise error(
                "expected no mask in a store through a block pointer (because its shape says what is inside), got a"
                " mask",
                hint="name the dimensions to check with boundary_check=(0, 1)",
                argument="mask",
            )
        store_block(pointer, value, boundary_check, attrs)
        return
    if options.boundary(boundary_check, 8):
        raise error(
            "expected boundary_check only with block pointers (because a plain pointer does not know its array's"
            f" shape), got {pointer.type}",
            hint="use mask=",
            argument="boundary_check",
        )
    flags = check_mask(mask, "kl.store")
    pointer = bool_as_byte(pointer)
    element = pointer.type.scalar.element_ty
    data = stored_value(value, element)
    shape = pointer.type.shape
    for name, part in (("value", data), ("mask", flags)):
        if part is not None and part.type.is_block():
            check_fits(part, shape, name)
    if pointer.type.is_block():
        data = broadcast_pair(pointer, data, "kl.store")[1]
        flags = align_to_pointer(pointer, flags, "kl.store", "mask")[1]
    operands = [pointer, data] + ([flags] if flags is not None else [])
    emit_many("tile.store", operands, [], attrs)


def prefetch(pointer: Any, mask: Any) -> None:
    what = "kl.prefetch"
    pointer = check_pointer_operand(pointer, what)
    if is_block_pointer(pointer):
        raise error(
            f"expected a plain pointer in {what} (because it takes one for every 128 bytes, not one for each element of"
            f" a block), got {pointer.type}",
            hint="add offsets to the array's pointer: ptr + kl.arange(0, N) * stride",
            argument="pointer",
        )
    flags = check_mask(mask, what)
    pointer, flags = align_to_pointer(pointer, flags, what, "mask")
    emit_many("tile.prefetch", [pointer] + ([flags] if flags is not None else []), [])


def stored_value(value: Any, element: Any) -> tensor:
    value = unwrap(value)
    if isinstance(value, (values.tuple, builtins.tuple, list, values.tensor_descriptor)) or value is None:
        raise error(f"expected a number or a tensor as value of kl.store, got {describe(value)}", argument="value")
    if element.is_ptr():
        return cast(to_tensor(value), element)
    return cast(value, element)


def check_fits(part: tensor, shape: Sequence[int], name: str) -> None:
    """Checks that a value or mask can be broadcast to the pointers. Pointers are never broadcast: each element is
    stored once."""
    source = part.type.shape
    if not len(shape):
        raise error(
            f"expected a scalar {name} in kl.store (because the pointer is a scalar), got {part.type}",
            hint="add offsets to the pointer: ptr + kl.arange(0, N)",
            argument=name,
        )
    padded = (1,) * (len(shape) - len(source)) + tuple(source)
    if len(source) > len(shape) or any(s not in (1, d) for s, d in zip(padded, shape, strict=False)):
        raise error(
            f"expected a {name} in kl.store that broadcasts to the pointers' shape {list(shape)}, got {list(source)}",
            hint="give the pointers both axes: ptr + rows[:, None] * stride + columns[None, :]"
            if len(source) > len(shape)
            else None,
            argument=name,
        )


def store_block(pointer: tensor, value: Any, boundary_check: Any, attrs: dict[str, str]) -> None:
    block = pointer.type.element_ty
    data = stored_value(value, block.element_ty)
    if not data.type.is_block():
        data = broadcast_to(data, block.shape)
    if tuple(data.type.shape) != tuple(block.shape):
        raise error(
            f"expected a value of the block's shape {list(block.shape)} in kl.store, got {list(data.type.shape)}",
            argument="value",
        )
    dims = options.boundary(boundary_check, len(block.shape))
    if dims:
        attrs["boundary"] = array_i32(dims)
    emit_many("tile.block_store", [pointer, data], [], attrs)


def scalar_list(items: Any, ty: Any, what: str) -> list[tensor]:
    """Turns a tuple of numbers and scalars into scalars of one integer type."""
    items = unwrap(items)
    if not isinstance(items, (builtins.tuple, list, values.tuple)):
        items = [items]
    return [scalar_index(item, ty, what) for item in items]


def scalar_index(item: Any, ty: Any, what: str) -> tensor:
    item = unwrap(item)
    if isinstance(item, int):
        if not ty.get_int_min_value() <= item <= ty.get_int_max_value():
            raise error(f"expected {what} that {ty} can hold, got {item}", value=item)
        return constant(ty, item)
    value = to_tensor(item, f"integers as {what}")
    if value.type.is_block() or not value.type.scalar.is_int():
        hint = "divide with //" if value.type.scalar.is_floating() else None  # type: ignore[attr-defined]
        raise error(f"expected integer scalars as {what}, got {value.type}", hint, value=value)
    if value.type.scalar.int_bitwidth == 64 and ty == int32:
        raise error(
            f"expected 32-bit {what} (because a block's position is counted in 32 bits), got {value.type}",
            hint="convert with .to(kl.int32)",
            value=value,
        )
    return cast(value, ty)


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> tensor:
    base = check_pointer_operand(base, "kl.make_block_ptr")
    if base.type.is_block() or is_block_pointer(base):
        raise error(f"expected a scalar pointer as base of kl.make_block_ptr, got {base.type}", argument="base")
    base = bool_as_byte(base)
    block = shape_argument(block_shape, "block_shape")
    rank = len(block)
    extents = scalar_list(shape, int64, "shape of kl.make_block_ptr")
    steps = scalar_list(strides, int64, "strides of kl.make_block_ptr")
    position = scalar_list(offsets, int32, "offsets of kl.make_block_ptr")
    order = unwrap(order)
    if not isinstance(order, (builtins.tuple, list, values.tuple)):
        order = [order]
    order = [constexpr_int(d, "an entry of order of kl.make_block_ptr") for d in order]
    for name, part in (("shape", extents), ("strides", steps), ("offsets", position), ("order", order)):
        if len(part) != rank:
            raise error(
                f"expected {name} to have one entry per dimension of block_shape {list(block)} in kl.make_block_ptr,"
                " got"
                f" {len(part)}",
                argument=name,
            )
    if sorted(order) != list(range(rank)):
        raise error(
            f"expected a permutation of {list(range(rank))} as order of kl.make_block_ptr, got {order}",
            argument="order",
        )
    element = base.type.element_ty
    ty = pointer_type(block_type(element, block), const=base.type.is_const())
    return emit(
        "tile.make_block_ptr", [base, *extents, *steps, *position], ty, {"order": array_i32(order)},
        segments=[1, rank, rank, rank],
    )  # fmt: skip


def advance(pointer: Any, offsets: Any) -> tensor:
    value = unwrap(pointer)
    if not isinstance(value, tensor) or not is_block_pointer(value):
        raise error(
            f"expected a block pointer in kl.advance, got {describe(value)}", "add the offset: ptr + n", value=value
        )
    steps = scalar_list(offsets, int32, "offsets of kl.advance")
    rank = len(value.type.element_ty.shape)
    if len(steps) != rank:
        raise error(
            f"expected {rank} offsets in kl.advance (one for each dimension of the block), got {len(steps)}",
            argument="offsets",
        )
    return emit("tile.advance", [value, *steps], value.type)


def program_axis(axis: Any, what: str) -> str:
    number = constexpr_int(axis, f"the axis of {what}", "axis")
    if number not in (0, 1, 2):
        raise error(f"expected axis 0, 1 or 2 in {what} (because a grid has three), got {number}", argument="axis")
    return f"#tile<axis {'xyz'[number]}>"


def program_id(axis: Any) -> tensor:
    return emit("tile.program_id", [], int32, {"axis": program_axis(axis, "kl.program_id")})


def num_programs(axis: Any) -> tensor:
    return emit("tile.num_programs", [], int32, {"axis": program_axis(axis, "kl.num_programs")})

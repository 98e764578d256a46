"""Atomic read-modify-write and compare-and-swap."""

from __future__ import annotations

from typing import Any

from ..types import bfloat16, float16
from ..values import tensor, unwrap
from .build import emit, error
from .cast import cast
from .memory import CONST, check_mask, check_pointer_operand, is_block_pointer
from .operand import to_tensor
from .options import order_attrs
from .shape import broadcast_to


def atomic_pointer(pointer: Any, what: str) -> tensor:
    pointer = check_pointer_operand(pointer, what)
    if is_block_pointer(pointer):
        raise error(f"expected a pointer in {what}, got a block pointer", "use pointers: ptr + offsets", "pointer")
    if pointer.type.scalar.is_const():
        raise error(f"expected a pointer that may be written in {what}, got a const one", CONST, "pointer")
    return pointer


_PARAMETERS = {"value": "val", "compared value": "cmp", "mask": "mask"}


def fitted(value: tensor, pointer: tensor, what: str, name: str) -> tensor:
    """`value`, broadcast to the pointers' shape."""
    if not pointer.type.is_block():
        if value.type.is_block():
            raise error(
                f"expected a scalar {name} in {what} (because the pointer is a scalar), got {value.type}",
                hint="add offsets to the pointer: ptr + kl.arange(0, N)",
                argument=_PARAMETERS[name],
            )
        return value
    have, wanted = value.type.shape, pointer.type.shape
    if len(have) not in (0, len(wanted)) or any(x not in (1, y) for x, y in zip(have, wanted, strict=False)):
        raise error(
            f"expected a {name} in {what} that broadcasts to the pointers' shape {list(wanted)}, got {list(have)}",
            argument=_PARAMETERS[name],
        )
    return broadcast_to(value, pointer.type.shape)


def kind_of(op: str, element: Any, what: str) -> str:
    """The tile.atomic_rmw kind for an element type."""
    if element.is_ptr() or element.is_void():
        raise error(f"expected a pointer to numbers in {what}, got one to {element}")
    if element.is_floating():
        if element.is_fp8():
            raise error(f"expected elements of 16, 32 or 64 bits in {what}, got {element}")
        if op == "add":
            return "fadd"
        if op in ("max", "min"):
            if element.is_fp8():
                raise error(f"expected fp16, bf16, fp32, fp64 or integers in {what}, got {element}")
            return f"f{op}"
        if op == "xchg":
            if element in (float16, bfloat16):
                raise error(f"expected elements of 32 or 64 bits in {what}, got {element}")
            return op
        raise error(f"expected integers in {what} (because it combines bits), got {element}")
    if element.int_bitwidth < 32:
        raise error(f"expected integers of 32 or 64 bits in {what}, got {element}")
    if op in ("max", "min"):
        return op if element.is_int_signed() else f"u{op}"
    return op


def atomic_rmw(op: str, pointer: Any, value: Any, mask: Any, sem: Any, scope: Any) -> tensor:
    """`op` is add, max, min, and, or, xor or xchg. The result is the old value in memory."""
    what = f"kl.atomic_{op}"
    pointer = atomic_pointer(pointer, what)
    element = pointer.type.scalar.element_ty
    kind = kind_of(op, element, what)
    flags = check_mask(mask, what)
    data = fitted(cast(unwrap(value), element), pointer, what, "value")
    operands = [pointer, data]
    if flags is not None:
        operands.append(fitted(flags, pointer, what, "mask"))
    return emit("tile.atomic_rmw", operands, data.type, {"kind": f"#tile<rmw {kind}>", **order_attrs(sem, scope)})


def atomic_cas(pointer: Any, compare: Any, value: Any, sem: Any, scope: Any) -> tensor:
    what = "kl.atomic_cas"
    pointer = atomic_pointer(pointer, what)
    element = pointer.type.scalar.element_ty
    if element.is_ptr() or element.primitive_bitwidth not in (16, 32, 64):
        raise error(f"expected elements of 16, 32 or 64 bits in {what}, got {element}")
    old = fitted(cast(unwrap(compare), element), pointer, what, "compared value")
    new = fitted(cast(unwrap(value), element), pointer, what, "value")
    return emit("tile.atomic_cas", [pointer, to_tensor(old), new], new.type, order_attrs(sem, scope))

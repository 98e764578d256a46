"""Elementwise functions: the math dialect, library calls, inline assembly."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from .. import values
from ..types import float32, float64, int64
from ..values import is_number, tensor, unwrap
from .build import emit, emit_many, error, i32, shaped, string
from .cast import cast, float_op, scalar_type
from .operand import describe, kernel_function, number_type, to_tensor
from .promotion import common_type, promote, weak_constant
from .shape import broadcast_many, join, reshape, split

_WIDE = (float32, float64)


def operand(value: Any, what: str) -> tensor:
    """A number or a tensor as a tensor: a Python float becomes fp32, an integer stays an integer, as in Triton."""
    return to_tensor(value, f"a number or a tensor in {what}")


def to_float_hint(value: tensor) -> str:
    return "load it first with kl.load" if value.type.scalar.is_ptr() else "convert with .to(kl.float32)"


def wide_float(value: tensor, what: str) -> tensor:
    """Checks for fp32 or fp64, the types that the math functions are defined on."""
    if value.type.scalar not in _WIDE:
        raise error(
            f"expected fp32 or fp64 in {what} (because its accuracy is stated for those), got {value.type.scalar}",
            hint=to_float_hint(value),
            value=value,
        )
    return value


def math_op(name: str, what: str, value: Any, any_float: bool = False, attrs: dict[str, Any] | None = None) -> tensor:
    """A unary function of the math dialect."""
    value = operand(value, what)
    if any_float:
        if not value.type.scalar.is_floating():
            raise error(f"expected floats in {what}, got {value.type.scalar}", hint=to_float_hint(value))
    else:
        wide_float(value, what)
    return emit(f"math.{name}", [value], value.type, attrs)


def absolute(value: Any) -> tensor:
    value = operand(value, "kl.abs")
    element = value.type.scalar
    if element.is_ptr():
        raise error(f"expected numbers in kl.abs, got {value.type}")
    if element.is_floating():
        return emit("math.absf", [value], value.type)
    if element.is_int_signed():
        return emit("math.absi", [value], value.type)
    return value


def fused_multiply_add(x: Any, y: Any, z: Any) -> tensor:
    x, y = promote(x, y, "kl.fma")
    z, x = promote(z, x, "kl.fma")
    z, y = promote(z, y, "kl.fma")
    x, y, z = broadcast_many([x, y, z], "kl.fma")
    if not x.type.scalar.is_floating():
        from .arithmetic import binary

        return binary("+", binary("*", x, y), z)
    return float_op("math.fma", [x, y, z])


def same_type(operands: Sequence[Any], what: str) -> list[tensor]:
    """Brings all operands to one type and shape; plain numbers adopt the type of the tensors."""
    plain = [unwrap(v) for v in operands]
    target: Any = None
    weak = True
    for value in plain:
        is_weak = is_number(value)
        ty = number_type(value) if is_weak else to_tensor(value, f"a number or a tensor in {what}").type.scalar
        if ty.is_ptr():
            raise error(f"expected numbers in {what}, got {ty}")
        target, weak = (ty, is_weak) if target is None else (common_type(target, weak, ty, is_weak), weak and is_weak)
    tensors = [weak_constant(v, target, target, what) if is_number(v) else cast(v, target) for v in plain]
    return broadcast_many(tensors, what)


def library_call(symbol: str, library: str, operands: Sequence[tensor], result: Any, pure: bool = True) -> tensor:
    """Calls a scalar library function, by name, for each element."""
    attrs = {"symbol": string(symbol), "library": string(library)}
    if pure:
        attrs["isPure"] = "unit"
    return emit("tile.extern_call", list(operands), shaped(operands[0], result), attrs)


def inline_asm(
    assembly: Any, constraints: Any, arguments: Any, dtype: Any, is_pure: Any, pack: Any, portable: Any = None
) -> Any:
    """Applies target assembly to each element. `portable`, a function of the elements, is used on targets that do not
    have this assembly."""
    what = "kl.inline_asm_elementwise"
    assembly, constraints = unwrap(assembly), unwrap(constraints)
    for name, text in (("asm", assembly), ("constraints", constraints)):
        if not isinstance(text, str):
            raise error(f"expected a constexpr string as {name} of {what}, got {describe(text)}", argument=name)
    dtype = unwrap(dtype)
    several = isinstance(dtype, (builtins.tuple, list, values.tuple))
    elements = [scalar_type(t) for t in dtype] if several else [scalar_type(dtype)]
    if not isinstance(unwrap(arguments), (builtins.tuple, list, values.tuple)):
        raise error(f"expected a tuple of tensors as args of {what}, got {describe(arguments)}", argument="args")
    # Assembly sees a pointer as its 64-bit address.
    operands = [cast(v, int64) if v.type.scalar.is_ptr() else v for v in broadcast_many(list(unwrap(arguments)), what)]
    pointers = {i: ty for i, ty in enumerate(elements) if ty.is_ptr()}
    elements = [int64 if ty.is_ptr() else ty for ty in elements]
    shape_of = operands[0] if operands else None
    results = [shaped(shape_of, e) if shape_of is not None else e for e in elements]
    attrs: dict[str, Any] = {"assembly": string(assembly), "constraints": string(constraints)}
    if unwrap(is_pure):
        attrs["isPure"] = "unit"
    packed = unwrap(pack)
    if isinstance(packed, bool) or not isinstance(packed, int) or packed < 1:
        raise error(f"expected a positive constexpr integer as pack of {what}, got {describe(packed)}", argument="pack")
    check_registers(constraints, operands, results, packed, what)
    if packed != 1:
        attrs["packed"] = i32(packed)
    region = portable_region(unwrap(portable), [o.type.scalar for o in operands], elements, what)
    found = emit_many("tile.inline_asm", operands, results, attrs, regions=[region])
    found = [cast(v, pointers[i]) if i in pointers else v for i, v in enumerate(found)]
    return values.tuple(found) if several else found[0]


def check_registers(
    constraints: str, operands: Sequence[tensor], results: Sequence[Any], packed: int, what: str
) -> None:
    """Checks that the constraints name exactly the registers that operands and results take, `packed` elements at a
    time."""
    shape = operands[0].type.shape if operands else ()
    count = math.prod(shape)
    if count % packed:
        raise error(
            f"expected a pack of {what} that divides the {count} elements (because the assembly runs on that many at"
            f" a time), got {packed}",
            argument="pack",
        )

    def registers(ty: Any) -> int:
        bits = 64 if ty.is_ptr() else max(ty.primitive_bitwidth, 8)
        return -(-packed // max(32 // bits, 1))  # narrow elements share a 32-bit register

    parts = [part.strip() for part in constraints.split(",") if part.strip()]
    given = [
        sum(part.startswith("=") for part in parts), sum(not part.startswith(("=", "~")) for part in parts),
    ]  # fmt: skip
    wanted = [sum(registers(ty.scalar) for ty in results), sum(registers(t.type.scalar) for t in operands)]
    if given != wanted:
        raise error(
            f"expected constraints for {wanted[0]} output and {wanted[1]} input register{'s' * (wanted[1] != 1)} in"
            f" {what} (because {'an element takes' if packed == 1 else f'{packed} elements take'} that many), got"
            f" {given[0]} and {given[1]}",
            argument="constraints",
        )


def portable_region(function: Any, arguments: Sequence[Any], results: Sequence[Any], what: str) -> int:
    from .build import emitter

    em = emitter()
    if function is None:
        return -1  # the builder's handle of an empty region
    function = kernel_function(function, f"a function as portable of {what}", "that takes the elements")
    handles = em.begin_region([t.mlir for t in arguments])
    scalars = [tensor(h, t) for h, t in zip(handles, arguments, strict=False)]
    em.inlining += 1  # the region must contain all its code, so calls are emitted in place
    try:
        found = function(*scalars)
    finally:
        em.inlining -= 1
    found = list(found) if isinstance(found, (builtins.tuple, list, values.tuple)) else [found]
    if len(found) != len(results):
        raise error(
            f"expected {len(results)} result{'s' * (len(results) != 1)} of the portable function in {what} (one for"
            f" each dtype), got {len(found)}",
            argument="portable",
        )
    em.op("tile.yield", [cast(v, t).handle for v, t in zip(found, results, strict=False)], [])
    return em.end_region()


# --- functions of scalars ---------------------------------------------------------------------------------------------


def map_elementwise(function: Any, arguments: Sequence[Any], pack: Any) -> Any:
    what = "kl.map_elementwise"
    function = kernel_function(function, f"a function of scalars in {what}", "that takes the elements")
    packed = unwrap(pack)
    if isinstance(packed, bool) or not isinstance(packed, int) or packed < 1 or packed & (packed - 1):
        raise error(f"expected a power of two as pack of {what}, got {describe(packed)}", argument="pack")
    if not arguments:
        raise error(f"expected at least one tensor in {what}, got none")
    tiles = broadcast_many(arguments, what)
    if not tiles[0].type.is_block():
        if packed != 1:
            raise error(f"expected tiles in {what} (because {packed} elements are taken at a time), got a scalar")
        return function(*tiles)
    shape = tiles[0].type.shape
    side = shape[-1]
    if side % packed:
        raise error(
            f"expected a pack of {what} that divides the last side, which is {side}, got {packed}", argument="pack"
        )
    columns = [column for tile in tiles for column in unpacked(tile, packed)]
    from .build import emitter

    region, parts = emitter().map_region(function, [c.type.scalar for c in columns], what)
    if len(parts) % packed:
        raise error(
            f"expected {packed} results of each kind in {what} (because it takes that many elements at a time), got"
            f" {len(parts)}"
        )
    found = emit_many("tile.map", columns, [shaped(columns[0], p.type) for p in parts], regions=[region])
    results = []
    for i in range(0, len(found), packed):
        group = found[i : i + packed]
        if any(t.type != group[0].type for t in group):
            raise error(
                f"expected the {packed} results of one kind to have one type in {what}, got"
                f" {', '.join(str(t.type.scalar) for t in group)}"
            )
        results.append(reshape(repacked(group), shape))
    if not results:
        return None
    return results[0] if len(results) == 1 else values.tuple(results)


def unpacked(tile: tensor, count: int) -> list[tensor]:
    """Splits each group of `count` neighbours along the last dimension into `count` tiles: the first ones, the second
    ones, …"""
    if count == 1:
        return [tile]
    *rest, side = tile.type.shape
    even, odd = (unpacked(half, count // 2) for half in split(reshape(tile, [*rest, side // 2, 2])))
    return [part for pair in zip(even, odd, strict=True) for part in pair]


def repacked(parts: list[tensor]) -> tensor:
    """The inverse of `unpacked`."""
    if len(parts) == 1:
        return parts[0]
    both = join(repacked(parts[0::2]), repacked(parts[1::2]))
    *rest, side, _ = both.type.shape
    return reshape(both, [*rest, side * 2])

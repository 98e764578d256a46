"""Matrix products."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..types import (
    MAX_ODD_FACTOR,
    bfloat16,
    block_type,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    is_legal_side,
    uint8,
)
from ..values import tensor, unwrap
from .arithmetic import binary, compare, where
from .build import check_calculates, constant, emit, error, i32
from .cast import bitcast, cast, scalar_type
from .operand import describe, to_tensor
from .promotion import broadcast_exact
from .shape import expand_at, join, reshape, transpose

_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
_FORMATS: dict[str, Any] = {"e2m1": uint8, "e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}
_GROUP = 32
# More than the number of fp8 products in any sum.
UNLIMITED = 1 << 30
_INPUTS = (int8, uint8, float16, bfloat16, float32, float64)


def precision(value: Any, allow_tf32: Any) -> str:
    """`input_precision`, or the precision that the older `allow_tf32` stands for; `ieee` by default."""
    value, allow_tf32 = unwrap(value), unwrap(allow_tf32)
    if value is not None and allow_tf32 is not None:
        raise error("expected input_precision or allow_tf32 in kl.dot, got both", "drop allow_tf32", "allow_tf32")
    if value is None:
        return "tf32" if allow_tf32 else "ieee"
    if not isinstance(value, str) or value.lower() not in _PRECISIONS:
        raise error(
            f"expected one of {', '.join(map(repr, _PRECISIONS))} as input_precision, got {describe(value)}",
            argument="input_precision",
        )
    return value.lower()


def check_operands(lhs: tensor, rhs: tensor) -> None:
    for name, side in (("first", lhs), ("second", rhs)):
        rank = len(side.type.shape) if side.type.is_block() else 0
        if rank < 2:
            raise error(
                f"expected a tile of rank 2 or more as {name} operand of kl.dot, got {side.type}",
                hint="add an axis with x[:, None], or use kl.sum(x * y)",
                value=side,
            )
    a, b = lhs.type.scalar, rhs.type.scalar
    check_calculates(a, b)
    if not (a.is_fp8() and b.is_fp8()):
        for element in (a, b):
            if element not in _INPUTS and not element.is_fp8():
                raise error(
                    f"expected int8, fp8, fp16, bf16, fp32 or fp64 in kl.dot, got {element}",
                    hint="convert with .to(kl.float16)",
                )
        if a != b:
            wide = b if a.is_fp8() else a
            raise error(
                f"expected operands of one type in kl.dot (because only the fp8 types mix), got {a} and {b}",
                hint=f"convert one with .to(kl.{_spelling(wide)})",
            )
    if len(lhs.type.shape) != len(rhs.type.shape):
        raise error(f"expected operands of one rank in kl.dot, got {list(lhs.type.shape)} and {list(rhs.type.shape)}")
    if lhs.type.shape[-1] != rhs.type.shape[-2]:
        raise error(
            f"expected operands (M, K) and (K, N) in kl.dot, got {list(lhs.type.shape)} and {list(rhs.type.shape)},"
            f" where K is {lhs.type.shape[-1]} and {rhs.type.shape[-2]}",
            hint="transpose the second operand with kl.trans" if lhs.type.shape[-1] == rhs.type.shape[-1] else None,
        )
    batch, other = lhs.type.shape[:-2], rhs.type.shape[:-2]
    if batch != other:
        if len(batch) == 1:
            raise error(f"expected one batch side in kl.dot, got {batch[0]} and {other[0]}")
        raise error(f"expected the same batch sides in kl.dot, got {list(batch)} and {list(other)}")
    if not is_legal_side(math.prod(batch)):
        raise error(
            f"expected batch sides of kl.dot whose product is 2^k * m with m odd and at most {MAX_ODD_FACTOR} (because"
            f" they become one side), got {list(batch)} with {math.prod(batch)}"
        )


def _spelling(ty: Any) -> str:
    return {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}.get(ty.name, ty.name)


def dot(
    lhs: Any,
    rhs: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = float32,
) -> tensor:
    lhs, rhs = to_tensor(lhs, "a tile in kl.dot"), to_tensor(rhs, "a tile in kl.dot")
    mode = precision(input_precision, allow_tf32)
    check_operands(lhs, rhs)
    element = lhs.type.scalar
    wanted = scalar_type(out_dtype)
    if element.is_int():
        if element != int8 or rhs.type.scalar != int8:
            raise error(
                f"expected int8 in an integer kl.dot, got {element}", hint="convert with .to(kl.int8, bitcast=True)"
            )
        result = int32
    elif wanted == bfloat16:
        raise error(
            "expected fp32 or fp16 as out_dtype of kl.dot, got bf16",
            hint="convert the product with .to(kl.bfloat16)",
            argument="out_dtype",
        )
    elif element in (float32, bfloat16):
        result = float32
    elif element == float64:
        result = float64
    else:
        if wanted not in (float16, float32):
            raise error(f"expected fp32 or fp16 as out_dtype of kl.dot, got {wanted}", argument="out_dtype")
        result = wanted
    ty = block_type(result, (*lhs.type.shape[:-1], rhs.type.shape[-1]))
    if unwrap(acc) is None:
        total = constant(ty, 0)
    else:
        total = to_tensor(acc, "a tile as acc of kl.dot")
        if total.type != ty:
            hint = f"start it with kl.zeros({tuple(ty.shape)}, dtype=kl.{_spelling(result)})"
            if total.type == block_type(float16, ty.shape) and (element.is_fp8() or element == float16):
                hint = "say out_dtype=kl.float16 as well"
            raise error(
                f"expected an acc of type {ty} in kl.dot (because that is the product's), got {total.type}",
                hint=hint,
                argument="acc",
            )
    attrs = {}
    if mode != "ieee":
        attrs["precision"] = f"#tile<precision {mode}>"
    limit = unwrap(max_num_imprecise_acc)
    if limit is None:
        limit = UNLIMITED if lhs.type.scalar.is_fp8() else 0
    else:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise error(
                "expected a number that is not negative as max_num_imprecise_acc of kl.dot (because it counts"
                f" products), got {describe(limit)}",
                argument="max_num_imprecise_acc",
            )
        if lhs.type.scalar.is_fp8() and limit > lhs.type.shape[-1]:
            raise error(
                f"expected max_num_imprecise_acc of at most K = {lhs.type.shape[-1]}, got {limit}",
                argument="max_num_imprecise_acc",
            )
    if limit:
        attrs["maxImpreciseAcc"] = i32(limit)
    if len(ty.shape) <= 3:
        return emit("tile.dot", [lhs, rhs, total], ty, attrs)
    lhs, rhs, total = (one_batch(tile) for tile in (lhs, rhs, total))
    return reshape(emit("tile.dot", [lhs, rhs, total], total.type, attrs), ty.shape)


def one_batch(tile: tensor) -> tensor:
    """Collapses the leading dimensions into one."""
    *batch, rows, columns = tile.type.shape
    return reshape(tile, (math.prod(batch), rows, columns))


class ScaledOperand(NamedTuple):
    """One side of kl.dot_scaled, as passed."""

    name: str
    value: Any
    scale: Any
    form: Any
    k_pack: Any


def dot_scaled(lhs: ScaledOperand, rhs: ScaledOperand, acc: Any, out_dtype: Any) -> tensor:
    """Multiplies operands that have one scale, a power of two (e8m0), for each 32 elements along K.

    Scaling by a power of two leaves the significand as it is: a number that fits the 8 bits of bf16 still does, and an
    fp16 keeps its 11 bits as tf32. So the products of tensor cores are exact; only their fp32 sums are rounded.
    """
    forms = [scaled_format(side) for side in (lhs, rhs)]
    scaled = any(unwrap(side.scale) is not None for side in (lhs, rhs))
    element = bfloat16 if "fp16" not in forms else float32 if scaled or "bf16" in forms else float16
    left, right = scaled_operand(lhs, element, -1), scaled_operand(rhs, element, -2)
    mode = "tf32" if element == float32 else None
    wanted = scalar_type(out_dtype)
    if wanted not in (float16, bfloat16, float32):
        raise error(f"expected fp32, fp16 or bf16 as out_dtype of kl.dot_scaled, got {wanted}", argument="out_dtype")
    if unwrap(acc) is not None:
        acc = to_tensor(acc, "a tile as acc of kl.dot_scaled")
        if acc.type.scalar != wanted:
            raise error(
                f"expected an acc of {wanted} in kl.dot_scaled (because that is out_dtype), got {acc.type}",
                argument="acc",
            )
        acc = cast(acc, float32)
    return cast(dot(left, right, acc, mode), wanted)


def scaled_format(side: ScaledOperand) -> str:
    form = unwrap(side.form)
    if form not in _FORMATS:
        raise error(
            f"expected one of {', '.join(map(repr, _FORMATS))} as {side.name}_format of kl.dot_scaled, got"
            f" {describe(form)}",
            argument=f"{side.name}_format",
        )
    if form != "e2m1" and not unwrap(side.k_pack):
        raise error(
            f"expected {side.name}_k_pack=True in kl.dot_scaled (because only e2m1 is packed), got False for {form}",
            argument=f"{side.name}_k_pack",
        )
    return form


def scaled_operand(side: ScaledOperand, element: Any, k_axis: int) -> tensor:
    """The operand's elements, scaled, in a type that holds them. `k_axis`: which of its last two dimensions is K."""
    form = unwrap(side.form)
    value = to_tensor(side.value, f"a tile as {side.name} of kl.dot_scaled")
    if len(value.type.shape) < 2:
        raise error(
            f"expected a tile of rank 2 or more as {side.name} of kl.dot_scaled, got {value.type}", argument=side.name
        )
    stored = _FORMATS[form]
    if value.type.scalar != stored:
        if value.type.scalar.primitive_bitwidth != stored.primitive_bitwidth:
            raise error(
                f"expected a tile of {stored} as {side.name} of kl.dot_scaled (because its format is {form}), got"
                f" {value.type}",
                argument=side.name,
            )
        value = bitcast(value, stored)
    if form == "e2m1":
        value = unpack_e2m1(value, k_axis if unwrap(side.k_pack) else -3 - k_axis)
    value = cast(value, element)
    if unwrap(side.scale) is None:
        return value
    scale = to_tensor(side.scale, f"a tile as {side.name}_scale of kl.dot_scaled")
    batch, k, other = value.type.shape[:-2], value.type.shape[k_axis], value.type.shape[-3 - k_axis]
    if tuple(scale.type.shape) != (*batch, other, k // _GROUP) or scale.type.scalar not in (uint8, int8) or k % _GROUP:
        raise error(
            f"expected a {side.name}_scale of uint8 in shape {[*batch, other, k // _GROUP]} in kl.dot_scaled (one for"
            f" {_GROUP} elements along K, which is {k}), got {scale.type}",
            argument=f"{side.name}_scale",
        )
    factor = power_of_two(bitcast(scale, uint8), element)
    factor = broadcast_exact(expand_at(factor, len(factor.type.shape)), (*factor.type.shape, _GROUP))
    factor = reshape(factor, (*batch, other, k))
    if k_axis == -2:
        factor = swap_last(factor)
    return binary("*", value, factor)


def swap_last(tile: tensor) -> tensor:
    rank = len(tile.type.shape)
    return transpose(tile, [*range(rank - 2), rank - 1, rank - 2])


def power_of_two(scale: tensor, element: Any) -> tensor:
    """2^(scale - 127), made by setting the exponent field. 0 gives 2^-127, which is subnormal, and 255 gives NaN."""
    bits, shift = (int16, 7) if element == bfloat16 else (int32, 23)
    exponent = cast(scale, bits)
    field = binary("<<", exponent, shift)
    field = where(compare("==", exponent, 0), 1 << (shift - 1), field)
    field = where(compare("==", exponent, 255), 0x1FF << (shift - 1), field)
    return bitcast(field, element)


def unpack_e2m1(pairs: tensor, axis: int) -> tensor:
    """Unpacks the two numbers of each byte, lower bits first, next to each other along `axis`, as bf16."""
    byte = cast(pairs, int16)
    shape = list(pairs.type.shape)
    both = join(binary("&", byte, 0xF), binary("&", binary(">>", byte, 4), 0xF))
    if axis == -2:
        both = swap_last(both)
    shape[axis] *= 2
    code = reshape(both, shape)
    # Two exponent bits and one significand bit. From 1.0 on they shift into bf16's fields; below lies only one half.
    magnitude = binary("&", code, 7)
    normal = binary("+", binary("<<", magnitude, 6), 126 << 7)
    small = where(compare("==", magnitude, 1), 0x3F00, constant(code.type, 0))
    field = where(compare(">=", magnitude, 2), normal, small)
    return bitcast(binary("|", field, binary("<<", binary("&", code, 8), 12)), bfloat16)

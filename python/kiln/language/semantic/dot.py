"""Matrix products."""

from __future__ import annotations

from typing import Any

from ..types import bfloat16, block_type, float16, float32, float64, int8, int32, uint8
from ..values import tensor, unwrap
from .build import constant, emit, error, i32
from .cast import cast, scalar_type
from .promotion import describe, to_tensor

_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
_INPUTS = (int8, uint8, float16, bfloat16, float32, float64)


def precision(value: Any, allow_tf32: Any) -> str:
    """`input_precision`, or what the older `allow_tf32` says; `ieee` where neither does."""
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
        if rank not in (2, 3):
            hint = "add an axis with x[:, None], or use kl.sum(x * y)"
            if rank > 3:
                hint = "make the leading dimensions one batch dimension with x.reshape(...)"
            raise error(
                f"expected a tile of rank 2 or 3 as {name} operand of kl.dot, got {side.type}", hint=hint, value=side
            )
    a, b = lhs.type.scalar, rhs.type.scalar
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
    if len(lhs.type.shape) == 3 and lhs.type.shape[0] != rhs.type.shape[0]:
        raise error(f"expected one batch side in kl.dot, got {lhs.type.shape[0]} and {rhs.type.shape[0]}")


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
    if limit is not None:
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
    return emit("tile.dot", [lhs, rhs, total], ty, attrs)


def dot_scaled(
    lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any, acc: Any, out_dtype: Any
) -> tensor:
    """Operands in 8 or 16 bits times one power of two (e8m0) for each 32 elements along K; computed in fp32."""
    left = scaled_operand(lhs, lhs_scale, lhs_format, "lhs", along_last=True)
    right = scaled_operand(rhs, rhs_scale, rhs_format, "rhs", along_last=False)
    return dot(left, right, acc, out_dtype=out_dtype)


def scaled_operand(value: Any, scale: Any, form: Any, name: str, along_last: bool) -> tensor:
    from ..types import float8e4nv, float8e5
    from .arithmetic import binary, compare, where
    from .cast import bitcast
    from .promotion import broadcast_exact
    from .shape import expand_at, reshape, transpose

    formats = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}
    form = unwrap(form)
    if form not in formats:
        raise error(
            f"expected one of {', '.join(map(repr, formats))} as {name}_format of kl.dot_scaled, got {describe(form)}",
            argument=f"{name}_format",
        )
    value = to_tensor(value, f"a tile as {name} of kl.dot_scaled")
    if value.type.scalar != formats[form]:
        value = bitcast(value, formats[form])
    wide = cast(value, float32)
    if unwrap(scale) is None:
        return wide
    scale = to_tensor(scale, f"a tile as {name}_scale of kl.dot_scaled")
    shape = wide.type.shape
    side, k = (shape[0], shape[1]) if along_last else (shape[1], shape[0])
    if tuple(scale.type.shape) != (side, k // 32) or scale.type.scalar != uint8:
        raise error(
            f"expected a {name}_scale of uint8 in shape {[side, k // 32]} in kl.dot_scaled (one for 32 elements along"
            f" K), got {scale.type}",
            argument=f"{name}_scale",
        )
    # 2^(s - 127): the exponent field of an fp32; s = 0 is the denormal 2^-127 and s = 255 is NaN.
    exponent = cast(scale, int32)
    bits = binary("<<", exponent, 23)
    bits = where(compare("==", exponent, 0), 0x00400000, bits)
    bits = where(compare("==", exponent, 255), 0x7FC00000, bits)
    factor = expand_at(bitcast(bits, float32), 2)
    factor = reshape(broadcast_exact(factor, (side, k // 32, 32)), (side, k))
    return binary("*", wide, factor if along_last else transpose(factor))

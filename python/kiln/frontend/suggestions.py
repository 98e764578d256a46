"""Hints for names of other libraries in a kernel: the equivalent in Kiln."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kiln.errors import near_match
from kiln.language import values

# Names of `kl`, or methods of a tile (`x`); if a method takes the function's arguments, one entry serves both.
_INSTEAD = {
    "ones": "use kl.full(shape, 1, dtype)",
    "ones_like": "use kl.full(x.shape, 1, x.dtype)",
    "full_like": "use kl.full(x.shape, value, x.dtype)",
    "empty": "use kl.zeros(shape, dtype)",
    "empty_like": "use kl.zeros_like(x)",
    "linspace": "use first + step * kl.arange(0, N)",
    "eye": "compare two ranges: kl.arange(0, N)[:, None] == kl.arange(0, N)[None, :]",
    "matmul": "use kl.dot(a, b)",
    "mm": "use kl.dot(a, b)",
    "bmm": "use kl.dot(a, b)",
    "einsum": "use kl.dot(a, b), or kl.sum(a[:, :, None] * b[None, :, :], axis=1)",
    "clip": "use kl.clamp(x, min, max)",
    "relu": "use kl.maximum(x, 0)",
    "gelu": "use 0.5 * x * (1 + kl.erf(x * 0.70710678))",
    "silu": "use x * kl.sigmoid(x)",
    "swish": "use x * kl.sigmoid(x)",
    "square": "use x * x",
    "reciprocal": "use 1 / x",
    "pow": "use kl.exp2(y * kl.log2(x)), kl.extra.libdevice.pow(x, y), or x * x for a square",
    "power": "use kl.exp2(y * kl.log2(x)), kl.extra.libdevice.pow(x, y), or x * x for a square",
    "isfinite": "use kl.abs(x) < float('inf')",
    "is_nan": "use x != x",
    "any": "use kl.max(condition.to(kl.int32), axis=0), or kl.reduce_or",
    "all": "use kl.min(condition.to(kl.int32), axis=0)",
    "mean": "use kl.sum(x, axis=0) / n",
    "average": "use kl.sum(x, axis=0) / n",
    "var": "use kl.sum((x - mean) * (x - mean), axis=0) / n",
    "std": "use kl.sqrt(kl.sum((x - mean) * (x - mean), axis=0) / n)",
    "norm": "use kl.sqrt(kl.sum(x * x, axis=0))",
    "prod": "use kl.reduce(x, 0, function), with a jit function that multiplies",
    "amax": "use kl.max(x, axis=0)",
    "amin": "use kl.min(x, axis=0)",
    "logsumexp": "use m + kl.log(kl.sum(kl.exp(x - m), axis=0)), where m is kl.max(x, axis=0)",
    "transpose": "use kl.trans(x)",
    "t": "use kl.trans(x)",
    "concat": "use kl.cat(a, b), or kl.join(a, b) for a new last axis",
    "concatenate": "use kl.cat(a, b), or kl.join(a, b) for a new last axis",
    "stack": "use kl.join(a, b)",
    "squeeze": "use kl.reshape(x, shape)",
    "flatten": "use kl.ravel(x)",
    "unsqueeze": "use kl.expand_dims(x, axis), or x[:, None]",
    "repeat": "use kl.broadcast_to(x, shape)",
    "expand": "use kl.broadcast_to(x, shape)",
    "tile": "use kl.broadcast_to(x, shape)",
    "masked_fill": "use kl.where(mask, value, x)",
    "select": "use kl.where(condition, x, y)",
    "astype": "use x.to(dtype)",
    "type_as": "use x.to(y.dtype)",
    "size": "use x.shape, or x.numel",
    "ndim": "use len(x.shape)",
    "dim": "use len(x.shape)",
    "clone": "drop it (tiles are values: nothing changes them)",
    "copy": "drop it (tiles are values: nothing changes them)",
    "contiguous": "drop it (tiles have no memory layout)",
    "print": "use kl.device_print('name', x)",
    "printf": "use kl.device_print('name', x)",
    **dict.fromkeys(("syncthreads", "sync_threads", "barrier", "__syncthreads"), "use kl.debug_barrier()"),
    **dict.fromkeys(
        ("thread_id", "threadIdx", "thread_idx", "tid", "lane_id", "warp_id", "local_id"),
        "a program handles whole tiles: kl.program_id(axis) numbers the program, kl.arange(0, N) the elements",
    ),
    **dict.fromkeys(
        ("block_id", "blockIdx", "block_idx", "pid", "program_idx", "global_id", "get_global_id"),
        "use kl.program_id(axis)",
    ),
    **dict.fromkeys(("num_blocks", "gridDim", "grid_dim", "grid_size"), "use kl.num_programs(axis)"),
    **dict.fromkeys(("blockDim", "block_dim", "block_size"), "take the side of the tile as a kl.constexpr parameter"),
    **dict.fromkeys(("float", "single", "fp32", "f32"), "use kl.float32"),
    **dict.fromkeys(("double", "fp64", "f64"), "use kl.float64"),
    **dict.fromkeys(("half", "fp16", "f16"), "use kl.float16"),
    **dict.fromkeys(("bf16",), "use kl.bfloat16"),
    **dict.fromkeys(("int", "i32"), "use kl.int32"),
    **dict.fromkeys(("long", "i64"), "use kl.int64"),
    **dict.fromkeys(("bool", "bool_", "i1"), "use kl.int1"),
}  # fmt: skip

_CONVERSIONS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
                "long": "int64", "bool": "int1"}  # fmt: skip

_ARRAY = ("shape", "size", "ndim", "dim", "stride", "strides", "device", "numel", "nelement", "is_contiguous")


def is_pointer(value: Any) -> bool:
    return isinstance(value, values.tensor) and value.type.is_ptr() and not value.type.element_ty.is_block()


def of_array(name: str) -> str:
    """A hint for a property of an array, of which a kernel sees only the address."""
    asked = "x.stride(0)" if name.startswith("stride") else "x.shape[0]"
    return f"a kernel gets the address of an array alone: pass {asked} as an argument of its own"


def attribute(base: Any, name: str) -> str | None:
    """A hint for an attribute that does not exist; None if there is none."""
    import kiln.language
    from kiln.language.extra import libdevice

    if is_pointer(base):
        return of_array(name) if name in _ARRAY else f"read it first: kl.load(pointer).{name}"
    language = base is kiln.language or (isinstance(base, ModuleType) and base.__name__ == "kiln.language.math")
    tile = isinstance(base, values.tensor)
    if tile and name in _CONVERSIONS:
        return f"use x.to(kl.{_CONVERSIONS[name]})"
    if (language or tile) and name in _INSTEAD:
        return _INSTEAD[name]
    if tile and name in kiln.language.__all__ and callable(getattr(kiln.language, name)):
        return f"use kl.{name}(...)"
    if (language or tile) and name in libdevice.__all__:
        return f"use kl.extra.libdevice.{name}"
    held = base.value if isinstance(base, values.constexpr) else base
    match = near_match(name, [n for n in dir(held) if not n.startswith("_")])
    return f"did you mean {match}?" if match else None


def of_builtin(name: str) -> str | None:
    """A hint for a Python builtin that kernels do not have."""
    same = {"round": "use kl.extra.libdevice.rint(x)", "pow": _INSTEAD["pow"], "divmod": "use x // y and x % y"}
    return same.get(name)


def of_reduction(name: str) -> str:
    """What to write instead of Python's sum, min, max, any or all of one tile."""
    return _INSTEAD[name] if name in _INSTEAD else f"use kl.{name}(x, axis=0)"

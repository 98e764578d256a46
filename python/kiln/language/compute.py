"""Program ids, selection, matrix products, reductions with a user's function, escape hatches."""

from __future__ import annotations

import builtins
from typing import Any

from . import values
from .builtin import builtin
from .semantic import arithmetic, combine, elementwise, memory
from .semantic import dot as products
from .semantic.build import error
from .semantic.cast import scalar_type
from .semantic.operand import describe
from .types import float32
from .values import tensor, unwrap


@builtin
def program_id(axis: Any) -> tensor:
    """The index of this program instance along an axis (0, 1 or 2) of the grid: an int32 scalar.

    >>> pid = kl.program_id(0)
    """
    return memory.program_id(axis)


@builtin
def num_programs(axis: Any) -> tensor:
    """The number of program instances along an axis (0, 1 or 2) of the grid: an int32 scalar.

    >>> for row in kl.range(kl.program_id(0), rows, kl.num_programs(0)): ...
    """
    return memory.num_programs(axis)


@builtin
def where(condition: Any, x: Any, y: Any) -> tensor:
    """`x` where the condition holds, else `y`. All three broadcast to one shape; `x` and `y` are promoted to one type.

    Both `x` and `y` are evaluated: guard a load with its mask, not with `where`.

    >>> y = kl.where(x > 0, x, 0.1 * x)
    """
    return arithmetic.where(condition, x, y)


@builtin
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = float32,
) -> tensor:
    """Multiplies matrices (M, K) and (K, N) and adds `acc`, if given. With rank 3 and above, batch by batch.

    Both operands have the same type: int8 (accumulated in int32), fp8, fp16, bf16, fp32 (accumulated in fp32) or fp64;
    the two fp8 types may be mixed. Any legal side of a tile will do.

    acc                     must have the type of the product; its sum with the product is rounded once, at the end
    out_dtype               fp16 is possible for fp8 and fp16 operands: the fp32 sums are rounded to it (a tensor core
                            may round once for each of its instructions along K)
    input_precision         how an fp32 operand may be represented: "ieee" (the default) exactly, "tf32" by its 11
                            leading bits (truncated where a tensor core reads memory, else rounded), "tf32x3" by two
                            such parts, "bf16x3" and "bf16x6" by two and three parts of 8 bits. A target may be more
                            precise than requested, never less; the CPU is always exact
    allow_tf32              True means "tf32", False "ieee"
    max_num_imprecise_acc   how many products of fp8 operands along K a tensor core may sum at its own precision (about
                            14 bits on Hopper) before the sum is added in fp32; 0: none. The default is no limit: `acc`
                            too may then be accumulated at that precision, from dot to dot

    >>> acc = kl.dot(a, b, acc)
    """
    return products.dot(input, other, acc, input_precision, allow_tf32, max_num_imprecise_acc, out_dtype)


@builtin
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = float32,
) -> tensor:
    """A matrix product whose operands have a scale (a power of two, e8m0 in a uint8) for each 32 elements along K.

    Formats: "e2m1" (two in a uint8, the lower bits first), "e4m3", "e5m2", "bf16", "fp16"; fp8 may be passed as uint8.
    Scales have shapes (M, K / 32) and (N, K / 32), after any batch dimensions; None means 1, and 255 means NaN.
    Products are exact and accumulated in fp32, except where a scaled operand leaves the range of bf16.

    lhs_k_pack, rhs_k_pack   e2m1: whether pairs lie along K, or else along M of the first and N of the second operand
    out_dtype                type of the result and of `acc`: the fp32 sum is rounded to it at the end
    fast_math                has no effect: a NaN among the scales is always honoured

    >>> acc = kl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3", acc)
    """
    left = products.ScaledOperand("lhs", lhs, lhs_scale, lhs_format, lhs_k_pack)
    right = products.ScaledOperand("rhs", rhs, rhs_scale, rhs_format, rhs_k_pack)
    return products.dot_scaled(left, right, acc, out_dtype)


@builtin
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Combines all elements along an axis into one; those of the whole tile, if the axis is None.

    `combine_fn` is an associative jit function of two elements; for a tuple of tiles it takes two groups of elements
    and returns one. It may branch. If it loads, stores, asserts or uses atomics, neighbours are combined step by step,
    and each pair is visited once.

    >>> product = kl.reduce(x, 0, multiply)
    """
    return combine.reduce(input, axis, combine_fn, keep_dims)


@builtin
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """The running combination along an axis; from the end, if reversed. `combine_fn` is as in `kl.reduce`; if it has
    side effects, it is called for each pair in a tree of partial results, and for some pairs several times.

    >>> running = kl.associative_scan(x, 0, multiply)
    """
    return combine.scan(input, axis, combine_fn, reverse)


@builtin
def inline_asm_elementwise(
    asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any, portable: Any = None
) -> Any:
    """Applies target assembly to `pack` elements at a time; a tuple of dtypes gives one result for each.

    A pointer is passed as its address in a 64-bit register; results may be pointers too. `portable`, a jit function of
    the elements (addresses as int64), is used instead on targets that do not have this assembly.

    >>> y = kl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], kl.float32, True, 1, portable=double)
    """
    return elementwise.inline_asm(asm, constraints, args, dtype, is_pure, pack, portable)


@builtin
def extern_elementwise(lib_name: Any, lib_path: Any, args: Any, arg_type_symbol_dict: Any, is_pure: Any) -> tensor:
    """Applies a scalar function of a library to each element; the types of the arguments select the function.

    arg_type_symbol_dict   maps each tuple of argument types to (symbol, result type)

    >>> y = kl.extern_elementwise("libdevice", "", [x], COSINE, is_pure=True)
    """
    what = "kl.extern_elementwise"
    if not isinstance(unwrap(args), (builtins.tuple, list, values.tuple)):
        raise error(f"expected a tuple of arguments in {what}, got {describe(args)}", argument="args")
    if not isinstance(unwrap(arg_type_symbol_dict), dict):
        raise error(
            f"expected a constexpr dictionary from argument types to (symbol, result type) in {what}, got"
            f" {describe(arg_type_symbol_dict)}",
            argument="arg_type_symbol_dict",
        )
    operands = elementwise.same_type(list(unwrap(args)), what)
    found = {builtins.tuple(unwrap(t) for t in k): v for k, v in unwrap(arg_type_symbol_dict).items()}
    key = builtins.tuple(t.type.scalar for t in operands)
    if key not in found:
        wanted = "; ".join(", ".join(map(str, k)) for k in found)
        raise error(f"expected arguments of types {wanted} in {what}, got {', '.join(map(str, key))}")
    symbol, result = (unwrap(v) for v in found[key])
    name = unwrap(lib_name) or unwrap(lib_path) or ""
    return elementwise.library_call(symbol, name, operands, scalar_type(result), bool(unwrap(is_pure)))


@builtin
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """Applies a function of scalars to each element of tensors (which are broadcast to one shape).

    The function may branch and loop on its arguments, load, store, assert and use atomics: each element takes its own
    path, in any order. For each scalar it returns (it may return none) there is one tensor. With `pack` it takes that
    many neighbouring elements of each tensor, all of the first before those of the second, and returns as many of each
    result.

    >>> y = kl.map_elementwise(compare_and_pick, a, b)
    """
    return elementwise.map_elementwise(scalar_fn, args, pack)

"""The functions a kernel calls as `kl.X`: signatures, defaults and documentation; `semantic` says what they become.

Names, keyword arguments and defaults are those of Triton's `tl`. A function marked `@builtin` gets values of the kernel
already evaluated; where a parameter must be known at compile time it takes a constexpr or a plain Python value.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

from . import semantic, values
from .semantic import arithmetic, atomics, combine, debug, descriptor, elementwise, memory, shape
from .semantic import dot as products
from .semantic.build import error
from .semantic.cast import scalar_type
from .types import float32
from .values import constexpr, tensor, tensor_descriptor, unwrap

F = TypeVar("F", bound=Callable[..., Any])


def builtin(function: F) -> F:
    """Marks a function of the language: callable inside kernels, on values that are already evaluated."""
    function.__kiln_builtin__ = True  # type: ignore[attr-defined]
    return function


def is_builtin(function: Any) -> bool:
    return getattr(function, "__kiln_builtin__", False) is True


# --- program ----------------------------------------------------------------------------------------------------------


@builtin
def program_id(axis: Any) -> tensor:
    """Position of this program instance along an axis (0, 1 or 2) of the grid: an int32 scalar.

    >>> pid = kl.program_id(0)
    """
    return memory.program_id(axis)


@builtin
def num_programs(axis: Any) -> tensor:
    """Number of program instances along an axis (0, 1 or 2) of the grid: an int32 scalar.

    >>> for row in kl.range(kl.program_id(0), rows, kl.num_programs(0)): ...
    """
    return memory.num_programs(axis)


# --- creation ---------------------------------------------------------------------------------------------------------


@builtin
def arange(start: Any, end: Any) -> tensor:
    """The int32 tile start, start + 1, ..., end - 1. Both ends are constexpr; the length is a legal side.

    >>> offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    """
    return shape.arange(start, end)


@builtin
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """A tile of one value (a number or a scalar), converted to `dtype`.

    >>> best = kl.full((M,), float("-inf"), kl.float32)
    """
    return _shape.full(shape, value, dtype)


@builtin
def zeros(shape: Any, dtype: Any) -> tensor:
    """A tile of zeros.

    >>> acc = kl.zeros((M, N), dtype=kl.float32)
    """
    return _shape.full(shape, 0, dtype)


@builtin
def zeros_like(input: Any) -> tensor:
    """Zeros in the shape and element type of a tile.

    >>> total = kl.zeros_like(x)
    """
    value = semantic.to_tensor(input)
    return _shape.full(value.type.shape, 0, value.type.scalar)


@builtin
def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """The elements as another type; also `x.to(dtype)`.

    Floats round to nearest even, or toward zero where a narrowing conversion asks for `fp_downcast_rounding="rtz"`.
    Floats become integers by dropping the fraction. `bitcast=True` keeps the bits; the widths must agree.

    >>> y = kl.cast(x, kl.float16)
    """
    return semantic.cast(input, dtype, fp_downcast_rounding, bitcast)


@builtin
def to(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """`kl.cast` as a method.

    >>> y = x.to(kl.bfloat16)
    """
    return semantic.cast(input, dtype, fp_downcast_rounding, bitcast)


# --- shape ------------------------------------------------------------------------------------------------------------


@builtin
def broadcast(input: Any, other: Any) -> values.tuple:
    """Two tensors in one shape: scalars repeat, missing leading sides and sides of 1 stretch.

    >>> a, b = kl.broadcast(x[:, None], y[None, :])
    """
    return shape.broadcast(input, other)


@builtin
def broadcast_to(input: Any, *shape: Any) -> tensor:
    """A tensor stretched to a shape; only sides of 1 (and scalars) stretch.

    >>> y = kl.broadcast_to(x[:, None], (M, N))
    """
    return _shape.broadcast_to(input, values.tuple(_shape.spread(shape, ())))


@builtin
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> tensor:
    """The same elements, in row-major order, in another shape of as many elements.

    `can_reorder` allows a target to choose another order where the use does not care; here the order is kept.

    >>> y = kl.reshape(x, (M * N,))
    """
    return _shape.reshape(input, values.tuple(_shape.spread(shape, ())))


@builtin
def view(input: Any, *shape: Any) -> tensor:
    """`kl.reshape` by its older name.

    >>> y = kl.view(x, (N, 2))
    """
    return _shape.reshape(input, values.tuple(_shape.spread(shape, ())))


@builtin
def ravel(x: Any, can_reorder: Any = False) -> tensor:
    """All elements in one dimension, row-major.

    >>> flat = kl.ravel(x)
    """
    value = semantic.to_tensor(x)
    return _shape.reshape(value, (value.numel.value,))


@builtin
def expand_dims(input: Any, axis: Any) -> tensor:
    """One new side of 1 at `axis`, or one at each of several axes (they count in the result).

    >>> column = kl.expand_dims(x, 1)
    """
    return shape.expand_dims(input, axis)


@builtin
def permute(input: Any, *dims: Any) -> tensor:
    """Dimensions in another order: side i of the result is side `dims[i]` of the input.

    >>> y = kl.permute(x, (2, 0, 1))
    """
    return shape.permute(input, shape.spread(dims, ()))


@builtin
def trans(input: Any, *dims: Any) -> tensor:
    """Dimensions in another order; with none given, the last two swapped. Of a matrix also `x.T`.

    >>> y = kl.trans(x)
    """
    return shape.transpose(input, shape.spread(dims, ()) if dims else ())


@builtin
def join(a: Any, b: Any) -> tensor:
    """Two tensors side by side along a new last dimension of 2.

    >>> pairs = kl.join(x, y)  # pairs[i, 0] is x[i], pairs[i, 1] is y[i]
    """
    return shape.join(a, b)


@builtin
def split(a: Any) -> values.tuple:
    """The two halves of a last dimension of 2: what `kl.join` put together.

    >>> x, y = kl.split(pairs)
    """
    return shape.split(a)


@builtin
def interleave(a: Any, b: Any) -> tensor:
    """Elements of two tensors in turn along the last dimension: a0, b0, a1, b1, ...

    >>> y = kl.interleave(even, odd)
    """
    joined = shape.join(a, b)
    sides = joined.type.shape
    if len(sides) == 1:
        return joined
    return _shape.reshape(joined, (*sides[:-2], sides[-2] * 2))


@builtin
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> tensor:
    """Two tiles one after the other along a dimension. The order is kept, whatever `can_reorder` allows.

    >>> y = kl.cat(left, right)
    """
    return shape.cat(input, other, dim)


@builtin
def flip(x: Any, dim: Any = None) -> tensor:
    """The elements in reverse along a dimension; the last one, if none is given.

    >>> y = kl.flip(x)
    """
    return shape.flip(x, dim)


@builtin
def gather(src: Any, index: Any, axis: Any) -> tensor:
    """Elements picked along an axis: `result[i, j] = src[index[i, j], j]` for axis 0 of a matrix.

    The shapes agree but along the axis. An index outside the source is undefined.

    >>> y = kl.gather(x, kl.arange(0, N) ^ 1, 0)
    """
    return shape.gather(src, index, axis)


@builtin
def histogram(input: Any, num_bins: Any, mask: Any = None) -> tensor:
    """How often each of 0, ..., num_bins - 1 occurs in a tile of integers of rank 1; int32. Others are not counted.

    >>> counts = kl.histogram(x, 64, mask=offsets < n)
    """
    return shape.histogram(input, num_bins, mask)


@builtin
def sort(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """The elements in order along the last dimension. NaN sorts last (ascending).

    >>> y = kl.sort(x)
    """
    return shape.sort(x, dim, descending)


@builtin
def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> tensor:
    """The k greatest elements of the last dimension, greatest first (the least, least first, if not descending).

    >>> best = kl.topk(x, 8)
    """
    return shape.topk(x, k, dim, descending)


@builtin
def bitonic_merge(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """A sequence that rises and then falls (or the reverse) along the last dimension, brought in order.

    >>> y = kl.bitonic_merge(kl.cat(ascending, kl.flip(other)))
    """
    return shape.sort(x, dim, descending)


@builtin
def item(input: Any) -> tensor:
    """The scalar of a tile with one element.

    >>> first = kl.sum(x, keep_dims=True).item()
    """
    return shape.unsplat(semantic.to_tensor(input))


# --- memory -----------------------------------------------------------------------------------------------------------


@builtin
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
    """What pointers point at: a scalar for a pointer, a tile for a tile of pointers or a block pointer.

    mask              where false nothing is read; the element is `other`, or undefined without one
    boundary_check    block pointers: the dimensions along which the block may leave the array
    padding_option    block pointers: what is read there, "zero" or "nan"
    cache_modifier    "", ".ca", ".cg", ".cs", ".cv": a hint
    eviction_policy   "", "evict_first", "evict_last": a hint

    >>> x = kl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    """
    return memory.load(
        pointer, mask, other, boundary_check, padding_option, cache_modifier, eviction_policy, volatile
    )


@builtin
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Writes a value, converted to the element type, where pointers point.

    Value and mask stretch to the pointers' shape. Where the mask is false nothing is written.

    >>> kl.store(y_ptr + offsets, y, mask=offsets < n)
    """
    memory.store(pointer, value, mask, boundary_check, cache_modifier, eviction_policy)


@builtin
def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> tensor:
    """A pointer to a block of a strided array: load, store and `kl.advance` it.

    shape, strides   of the whole array, in elements
    offsets          of the block's first element
    order            dimensions from the fastest to the slowest: (1, 0) for row-major

    >>> p = kl.make_block_ptr(x_ptr, (M, N), (N, 1), (pid * BM, 0), (BM, BN), (1, 0))
    """
    return memory.make_block_ptr(base, shape, strides, offsets, block_shape, order)


@builtin
def advance(base: Any, offsets: Any) -> tensor:
    """A block pointer moved by a number of elements along each dimension.

    >>> p = kl.advance(p, (0, BN))
    """
    return memory.advance(base, offsets)


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> tensor_descriptor:
    """Describes a strided array in global memory for loads and stores of whole blocks.

    The last stride is 1 (known at compile time). Reads outside the array give zero, or NaN if so asked; writes there
    go nowhere.

    >>> d = kl.make_tensor_descriptor(x_ptr, shape=(M, N), strides=(N, 1), block_shape=(BM, BN))
    """
    return descriptor.make_tensor_descriptor(base, shape, strides, block_shape, padding_option)


@builtin
def load_tensor_descriptor(desc: Any, offsets: Any, cache_modifier: Any = "", eviction_policy: Any = "") -> tensor:
    """The block at the given offsets; also `desc.load(offsets)`.

    >>> x = kl.load_tensor_descriptor(d, (row, 0))
    """
    return descriptor.load(desc, offsets, cache_modifier, eviction_policy)


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Writes a block at the given offsets; also `desc.store(offsets, value)`.

    >>> kl.store_tensor_descriptor(d, (row, 0), y)
    """
    descriptor.store(desc, offsets, value)


# --- atomics ----------------------------------------------------------------------------------------------------------


@builtin
def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Adds to memory atomically and gives back what was there.

    sem    "acquire", "release", "acq_rel" (if none is given) or "relaxed"
    scope  "gpu" (if none is given), "cta" or "sys"

    >>> kl.atomic_add(total_ptr, kl.sum(x), sem="relaxed")
    """
    return atomics.atomic_rmw("add", pointer, val, mask, sem, scope)


@builtin
def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The greater of memory and a value to memory, atomically; gives back what was there.

    >>> kl.atomic_max(best_ptr, kl.max(x))
    """
    return atomics.atomic_rmw("max", pointer, val, mask, sem, scope)


@builtin
def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The lesser of memory and a value to memory, atomically; gives back what was there.

    >>> kl.atomic_min(least_ptr, kl.min(x))
    """
    return atomics.atomic_rmw("min", pointer, val, mask, sem, scope)


@builtin
def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Bitwise and of memory and an integer to memory, atomically; gives back what was there.

    >>> kl.atomic_and(flags_ptr, 0xFE)
    """
    return atomics.atomic_rmw("and", pointer, val, mask, sem, scope)


@builtin
def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Bitwise or of memory and an integer to memory, atomically; gives back what was there.

    >>> kl.atomic_or(flags_ptr, 1)
    """
    return atomics.atomic_rmw("or", pointer, val, mask, sem, scope)


@builtin
def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Bitwise exclusive or of memory and an integer to memory, atomically; gives back what was there.

    >>> kl.atomic_xor(flags_ptr, 1)
    """
    return atomics.atomic_rmw("xor", pointer, val, mask, sem, scope)


@builtin
def atomic_xchg(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Puts a value into memory atomically and gives back what was there.

    >>> kl.atomic_xchg(lock_ptr, 0)
    """
    return atomics.atomic_rmw("xchg", pointer, val, mask, sem, scope)


@builtin
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """Puts `val` into memory if `cmp` is there, atomically; gives back what was there.

    >>> while kl.atomic_cas(lock_ptr, 0, 1) == 1: pass
    """
    return atomics.atomic_cas(pointer, cmp, val, sem, scope)


# --- choice and products ----------------------------------------------------------------------------------------------


@builtin
def where(condition: Any, x: Any, y: Any) -> tensor:
    """`x` where the condition holds, else `y`; all three in one shape, the choices in one type.

    Both choices are evaluated: guard a load with its mask, not with `where`.

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
    """The product of matrices (M, K) and (K, N), added to `acc` if there is one; of rank 3, batch by batch.

    Both operands have one type: int8 (sums in int32), fp8, fp16, bf16, fp32 (sums in fp32) or fp64. `out_dtype` may be
    fp16 for operands of fp8 and fp16. `input_precision` is "ieee" (if none is given), "tf32", "tf32x3", "bf16x3",
    "bf16x6"; a target may be more exact than asked, never less.

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
    """A product whose operands carry a scale (a power of two, e8m0 in a uint8) for each 32 elements along K.

    Formats: "e4m3", "e5m2", "bf16", "fp16". Scales have shapes (M, K / 32) and (N, K / 32); None means 1.

    >>> acc = kl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3", acc)
    """
    return products.dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc, out_dtype)


# --- reductions and scans ---------------------------------------------------------------------------------------------


@builtin
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """All elements along an axis combined to one; of the whole tile, if the axis is None.

    `combine_fn` is a jit function of two elements, associative and commutative; of a tuple of tiles it takes two groups
    of elements and returns one.

    >>> product = kl.reduce(x, 0, multiply)
    """
    return combine.reduce(input, axis, combine_fn, keep_dims)


@builtin
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """The running combination along an axis; from the end, if reversed. `combine_fn` as in `kl.reduce`.

    >>> running = kl.associative_scan(x, 0, multiply)
    """
    return combine.scan(input, axis, combine_fn, reverse)


# --- hints and debugging ----------------------------------------------------------------------------------------------


@builtin
def multiple_of(input: Any, values: Any) -> tensor:
    """A promise: the first element of each run along a dimension is a multiple of the given number.

    >>> stride = kl.multiple_of(stride, 16)
    """
    return debug.hint(input, "divisibility", values, "kl.multiple_of")


@builtin
def max_contiguous(input: Any, values: Any) -> tensor:
    """A promise: along each dimension, runs of the given length count up by one.

    >>> offsets = kl.max_contiguous(offsets, BLOCK)
    """
    return debug.hint(input, "contiguity", values, "kl.max_contiguous")


@builtin
def max_constancy(input: Any, values: Any) -> tensor:
    """A promise: along each dimension, runs of the given length are equal.

    >>> flags = kl.max_constancy(flags, 8)
    """
    return debug.hint(input, "constancy", values, "kl.max_constancy")


@builtin
def assume(cond: Any) -> None:
    """A promise the compiler may use: the scalar condition holds. If it does not, anything may happen.

    >>> kl.assume(n > 0)
    """
    debug.assume(cond)


@builtin
def debug_barrier() -> None:
    """Orders the memory accesses of this program instance before and after it.

    >>> kl.debug_barrier()
    """
    debug.barrier()


@builtin
def static_print(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
    """Prints while the kernel is compiled.

    >>> kl.static_print("block", BLOCK, x.type)
    """
    plain = [unwrap(v) for v in values]
    builtins.print(*plain, sep=unwrap(sep), end=unwrap(end), file=unwrap(file), flush=unwrap(flush))


@builtin
def static_assert(cond: Any, msg: Any = "") -> None:
    """Stops the compilation, with a message, unless a condition known at compile time holds.

    >>> kl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")
    """
    value = unwrap(cond)
    if isinstance(value, tensor):
        raise error(
            f"expected a condition known at compile time in kl.static_assert, got a value of type {value.type}",
            hint="use kl.device_assert",
        )
    if not value:
        from kiln.errors import StaticAssertionError

        text = unwrap(msg)
        raise StaticAssertionError(f"static assertion failed: {text}" if text else "static assertion failed")


@builtin
def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Prints values while the kernel runs, each with program id and coordinates.

    >>> kl.device_print("x", x)
    """
    debug.device_print(prefix, args, hex)


@builtin
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Stops the launch, with a message, if the condition fails for an element (where the mask holds, if one is given).

    >>> kl.device_assert(index < n, "index out of range")
    """
    debug.device_assert(cond, msg, mask)


# --- escape hatches ---------------------------------------------------------------------------------------------------


@builtin
def inline_asm_elementwise(
    asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any, portable: Any = None
) -> Any:
    """Target assembly applied to `pack` elements at a time; one result for each dtype of a tuple.

    `portable`, a jit function of the elements, stands in on a target whose assembly this is not.

    >>> y = kl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], kl.float32, True, 1, portable=double)
    """
    return elementwise.inline_asm(asm, constraints, args, dtype, is_pure, pack, portable)


@builtin
def extern_elementwise(lib_name: Any, lib_path: Any, args: Any, arg_type_symbol_dict: Any, is_pure: Any) -> tensor:
    """A scalar function of a library applied to each element, chosen by the types of the arguments.

    >>> y = kl.extern_elementwise("libdevice", "", [x], {(kl.float32,): ("__nv_cosf", kl.float32)}, is_pure=True)
    """
    what = "kl.extern_elementwise"
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
    """A function of scalars applied to each element of tensors (which are brought to one shape).

    The function is traced with the tensors themselves: it may use operators, `kl.where` and math, not loads or branches
    on its arguments.

    >>> y = kl.map_elementwise(compare_and_pick, a, b)
    """
    from .semantic.build import emitter

    operands = shape.broadcast_many(args, "kl.map_elementwise")
    return emitter().call(unwrap(scalar_fn), operands, {})


# --- loops ------------------------------------------------------------------------------------------------------------


class range:  # noqa: A001, N801
    """A counted loop, with hints for the compiler.

    num_stages           how many iterations' loads may be in flight
    loop_unroll_factor   how many iterations to write out
    disallow_acc_multi_buffer, flatten, warp_specialize, disable_licm   as in Triton

    >>> for k in kl.range(0, K, BLOCK_K, num_stages=3): ...
    """

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = False,
        disable_licm: Any = False,
    ):
        one = unwrap(arg2) is None
        self.start = constexpr(0) if one else arg1
        self.end = arg1 if one else arg2
        self.step = constexpr(1) if unwrap(step) is None else step
        self.num_stages = unwrap(num_stages)
        self.loop_unroll_factor = unwrap(loop_unroll_factor)
        self.disallow_acc_multi_buffer = bool(unwrap(disallow_acc_multi_buffer))
        self.flatten = bool(unwrap(flatten))
        self.warp_specialize = bool(unwrap(warp_specialize))
        self.disable_licm = bool(unwrap(disable_licm))

    def __iter__(self) -> Any:
        raise RuntimeError("kl.range is for loops inside a kernel")

    def __next__(self) -> Any:
        raise RuntimeError("kl.range is for loops inside a kernel")


class static_range:  # noqa: N801
    """A loop that is written out while the kernel is compiled; the bounds are constexpr, and so is the index.

    >>> for i in kl.static_range(4): ...
    """

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None):
        one = unwrap(arg2) is None
        self.start = constexpr(0) if one else arg1
        self.end = arg1 if one else arg2
        self.step = constexpr(1) if unwrap(step) is None else step
        for name, value in (("start", self.start), ("end", self.end), ("step", self.step)):
            shape.constexpr_int(value, f"the {name} of kl.static_range")

    def __iter__(self) -> Any:
        bounds = (unwrap(self.start), unwrap(self.end), unwrap(self.step))
        return (constexpr(i) for i in builtins.range(*bounds))


class condition:  # noqa: N801
    """The condition of a `while` loop, with hints for the compiler.

    >>> while kl.condition(i < n, disable_licm=True): ...
    """

    def __init__(self, arg1: Any, disable_licm: Any = False):
        self.condition = arg1
        self.disable_licm = bool(unwrap(disable_licm))


# `shape` is a parameter of some functions above; they reach the module by this name.
_shape = shape

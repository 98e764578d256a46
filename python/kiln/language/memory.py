"""Loads, stores and atomics: through pointers, block pointers and tensor descriptors."""

from __future__ import annotations

from typing import Any

from .builtin import builtin
from .semantic import atomics, descriptor, memory
from .values import tensor, tensor_descriptor


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
    """Reads memory: a scalar through a pointer, a tile through a tile of pointers or a block pointer.

    mask              where false, nothing is read; the element is `other`, or undefined if no `other` is given
    boundary_check    block pointers: the dimensions along which the block may extend beyond the array
    padding_option    block pointers: what is read there, "zero" or "nan"
    cache_modifier    "", ".ca", ".cg", ".cs", ".cv": a hint
    eviction_policy   "", "evict_first", "evict_last": a hint

    >>> x = kl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    """
    return memory.load(pointer, mask, other, boundary_check, padding_option, cache_modifier, eviction_policy, volatile)


@builtin
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Writes a value, converted to the element type, through pointers.

    Value and mask are broadcast to the pointers' shape. Where the mask is false, nothing is written.

    >>> kl.store(y_ptr + offsets, y, mask=offsets < n)
    """
    memory.store(pointer, value, mask, boundary_check, cache_modifier, eviction_policy)


@builtin
def prefetch(pointer: Any, mask: Any = None) -> None:
    """Asks for the memory at pointers that will be read soon, so that it waits in a cache; a target may ignore it. One
    pointer for every 128 bytes is enough.

    Reads nothing, so the program does not wait, and it may ask before it is known what it has to read. In a launch
    that begins while the one before it ends (``pdl``), what comes before the first access need not wait for that
    launch: its results may be asked for while they are still written.

    >>> kl.prefetch(x_ptr + kl.arange(0, 32) * 64)
    """
    memory.prefetch(pointer, mask)


@builtin
def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> tensor:
    """A pointer to a block of a strided array, for `kl.load`, `kl.store` and `kl.advance`.

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

    The last stride is 1 (known at compile time). Reads outside the array give zero, or NaN if requested; writes there
    are dropped.

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


@builtin
def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically adds to memory; returns the old value.

    sem    "acquire", "release", "acq_rel" (the default) or "relaxed"
    scope  "gpu" (the default), "cta" or "sys"

    >>> kl.atomic_add(total_ptr, kl.sum(x), sem="relaxed")
    """
    return atomics.atomic_rmw("add", pointer, val, mask, sem, scope)


@builtin
def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically replaces memory by the greater of its value and `val`; returns the old value.

    >>> kl.atomic_max(best_ptr, kl.max(x))
    """
    return atomics.atomic_rmw("max", pointer, val, mask, sem, scope)


@builtin
def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically replaces memory by the lesser of its value and `val`; returns the old value.

    >>> kl.atomic_min(least_ptr, kl.min(x))
    """
    return atomics.atomic_rmw("min", pointer, val, mask, sem, scope)


@builtin
def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically ANDs an integer into memory, bitwise; returns the old value.

    >>> kl.atomic_and(flags_ptr, 0xFE)
    """
    return atomics.atomic_rmw("and", pointer, val, mask, sem, scope)


@builtin
def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically ORs an integer into memory, bitwise; returns the old value.

    >>> kl.atomic_or(flags_ptr, 1)
    """
    return atomics.atomic_rmw("or", pointer, val, mask, sem, scope)


@builtin
def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically XORs an integer into memory, bitwise; returns the old value.

    >>> kl.atomic_xor(flags_ptr, 1)
    """
    return atomics.atomic_rmw("xor", pointer, val, mask, sem, scope)


@builtin
def atomic_xchg(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically writes a value to memory; returns the old value.

    >>> kl.atomic_xchg(lock_ptr, 0)
    """
    return atomics.atomic_rmw("xchg", pointer, val, mask, sem, scope)


@builtin
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """Atomically writes `val` to memory if `cmp` is there; returns the old value.

    >>> while kl.atomic_cas(lock_ptr, 0, 1) == 1: pass
    """
    return atomics.atomic_cas(pointer, cmp, val, sem, scope)

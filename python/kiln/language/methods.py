"""Attaches the free functions to `tensor` and `tensor_descriptor` as methods: `x.sum(0)` is `kl.sum(x, 0)`."""

from __future__ import annotations

from typing import Any

from . import compute, debugging, math, memory, shapes, standard, values
from .builtin import builtin
from .semantic import descriptor

_METHODS = {
    compute: (
        "associative_scan", "dot", "reduce",
    ),
    shapes: (
        "bitonic_merge", "broadcast_to", "cast", "cat", "expand_dims", "flip", "gather", "histogram", "item",
        "join", "permute", "ravel", "reshape", "sort", "split", "to", "topk", "trans", "view",
    ),
    memory: (
        "advance", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
        "atomic_xchg", "atomic_xor", "load", "store",
    ),
    debugging: (
        "device_print", "max_constancy", "max_contiguous", "multiple_of",
    ),
    math: (
        "abs", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2",
        "maximum", "minimum", "rsqrt", "sin", "sqrt", "sqrt_rn", "umulhi",
    ),
    standard: (
        "argmax", "argmin", "cdiv", "cumprod", "cumsum", "max", "min", "reduce_or", "sigmoid", "softmax", "sum",
        "xor_sum",
    ),
}  # fmt: skip


@builtin
def desc_load(self: Any, offsets: Any, cache_modifier: Any = "", eviction_policy: Any = "") -> values.tensor:
    """The block at the given offsets; outside the array, the padding value.

    >>> x = d.load([row, 0])
    """
    return descriptor.load(self, offsets, cache_modifier, eviction_policy)


@builtin
def desc_store(self: Any, offsets: Any, value: Any) -> None:
    """Writes a block at the given offsets; elements outside the array are dropped.

    >>> d.store([row, 0], y)
    """
    descriptor.store(self, offsets, value)


@builtin
def desc_gather(self: Any, x_offsets: Any, y_offset: Any) -> values.tensor:
    """Reads the rows with the given numbers, starting at a column: `d.gather(rows, column)`.

    >>> x = d.gather(rows, 0)
    """
    return descriptor.gather(self, x_offsets, y_offset)


@builtin
def desc_scatter(self: Any, value: Any, x_offsets: Any, y_offset: Any) -> None:
    """Writes the rows of a tile to the given rows of the array: `d.scatter(value, rows, column)`.

    >>> d.scatter(x, rows, 0)
    """
    descriptor.scatter(self, value, x_offsets, y_offset)


def _desc_atomic(op: str) -> Any:
    @builtin
    def method(self: Any, offsets: Any, value: Any) -> None:
        descriptor.atomic(op, self, offsets, value)

    method.__name__ = method.__qualname__ = f"atomic_{op}"
    method.__doc__ = f"""Combines a block into memory atomically, by {op}; gives nothing back.

    >>> d.atomic_{op}([row, 0], y)
    """
    return method


def attach() -> None:
    for module, names in _METHODS.items():
        for name in names:
            setattr(values.tensor, name, getattr(module, name))
    for name, function in (
        ("load", desc_load),
        ("store", desc_store),
        ("gather", desc_gather),
        ("scatter", desc_scatter),
    ):
        function.__name__ = name  # errors show it
        setattr(values.tensor_descriptor, name, function)
    for op in ("add", "min", "max", "and", "or", "xor"):
        setattr(values.tensor_descriptor, f"atomic_{op}", _desc_atomic(op))

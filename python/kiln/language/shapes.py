"""Creating, converting and reshaping tiles."""

from __future__ import annotations

from typing import Any

from . import semantic, values
from .builtin import builtin
from .semantic import shape
from .semantic.build import error
from .semantic.operand import constexpr_int
from .values import tensor


@builtin
def arange(start: Any, end: Any) -> tensor:
    """The int32 tile start, start + 1, ..., end - 1. Both bounds are constexpr; the length must be a legal side.

    >>> offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    """
    return shape.arange(start, end)


@builtin
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """A tile filled with one value (a number or a scalar), converted to `dtype`.

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
    """A tile of zeros with the shape and element type of another.

    >>> total = kl.zeros_like(x)
    """
    value = semantic.to_tensor(input)
    return _shape.full(value.type.shape, 0, value.type.scalar)


@builtin
def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """Converts the elements to another type; also `x.to(dtype)`.

    Floats round to nearest even; a narrowing conversion with `fp_downcast_rounding="rtz"` rounds toward zero. fp8
    saturates in either mode: a number beyond the largest finite one, or infinity, becomes the largest finite one, as on
    NVIDIA's GPUs; NaN stays NaN. Conversion from float to integer drops the fraction. `bitcast=True` keeps the bits;
    the widths must agree.

    >>> y = kl.cast(x, kl.float16)
    """
    return semantic.cast(input, dtype, fp_downcast_rounding, bitcast)


@builtin
def to(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """`kl.cast` as a method.

    >>> y = x.to(kl.bfloat16)
    """
    return semantic.cast(input, dtype, fp_downcast_rounding, bitcast)


@builtin
def broadcast(input: Any, other: Any) -> values.tuple:
    """Broadcasts two tensors to one shape: scalars, missing leading sides and sides of 1 are repeated.

    >>> a, b = kl.broadcast(x[:, None], y[None, :])
    """
    return shape.broadcast(input, other)


@builtin
def broadcast_to(input: Any, *shape: Any) -> tensor:
    """Broadcasts a tensor to a shape; only sides of 1 (and scalars) can be repeated.

    >>> y = kl.broadcast_to(x[:, None], (M, N))
    """
    return _shape.broadcast_to(input, values.tuple(_shape.spread(shape, ())))


@builtin
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> tensor:
    """The same elements, in row-major order, in another shape with as many elements.

    `can_reorder` allows a target to choose another order; Kiln always keeps the order.

    >>> y = kl.reshape(x, (M * N,))
    """
    return _shape.reshape(input, values.tuple(_shape.spread(shape, ())))


@builtin
def view(input: Any, *shape: Any) -> tensor:
    """The older name of `kl.reshape`.

    >>> y = kl.view(x, (N, 2))
    """
    return _shape.reshape(input, values.tuple(_shape.spread(shape, ())))


@builtin
def ravel(x: Any, can_reorder: Any = False) -> tensor:
    """Flattens to one dimension, in row-major order.

    >>> flat = kl.ravel(x)
    """
    value = semantic.to_tensor(x)
    return _shape.reshape(value, (value.numel.value,))


@builtin
def expand_dims(input: Any, axis: Any) -> tensor:
    """Inserts a side of 1 at `axis`, or one at each of several axes (positions in the result).

    >>> column = kl.expand_dims(x, 1)
    """
    return shape.expand_dims(input, axis)


@builtin
def squeeze(x: Any, dim: Any) -> tensor:
    """Removes side `dim`, which must be 1.

    >>> y = kl.squeeze(column, 1)
    """
    value = semantic.to_tensor(x)
    sides = list(value.type.shape)
    place = _shape.axis_argument(dim, len(sides), "kl.squeeze")
    if sides[place] != 1:
        raise error(f"expected side {place} to be 1 in kl.squeeze, got {sides[place]}", argument="dim")
    return _shape.reshape(value, (*sides[:place], *sides[place + 1 :]))


@builtin
def unsqueeze(x: Any, dim: Any) -> tensor:
    """Inserts a side of 1 before side `dim`, or after the last one if `dim` is the rank. A negative `dim` counts the
    sides of `x`: -1 inserts before the last side, unlike the axis of `kl.expand_dims`.

    >>> column = kl.unsqueeze(x, 1)
    """
    value = semantic.to_tensor(x)
    sides, place = list(value.type.shape), constexpr_int(dim, "the dim of kl.unsqueeze", "dim")
    if not -len(sides) <= place <= len(sides):
        expected = f"[{-len(sides)}, {len(sides)}]"
        raise error(f"expected a dim of kl.unsqueeze in {expected}, got {place}", argument="dim")
    return _shape.reshape(value, (*sides[:place], 1, *sides[place:]))


@builtin
def to_tensor(x: Any) -> tensor:
    """Turns a number into a scalar of the type it has in kernels; returns a tensor unchanged.

    >>> one = kl.to_tensor(1)
    """
    return semantic.to_tensor(x)


@builtin
def permute(input: Any, *dims: Any) -> tensor:
    """Permutes the dimensions: side i of the result is side `dims[i]` of the input.

    >>> y = kl.permute(x, (2, 0, 1))
    """
    return shape.permute(input, shape.spread(dims, ()))


@builtin
def trans(input: Any, *dims: Any) -> tensor:
    """Permutes the dimensions; by default swaps the last two. Also `x.T` for a matrix.

    >>> y = kl.trans(x)
    """
    return shape.transpose(input, shape.spread(dims, ()) if dims else ())


@builtin
def join(a: Any, b: Any) -> tensor:
    """Joins two tensors along a new last dimension of 2.

    >>> pairs = kl.join(x, y)  # pairs[i, 0] is x[i], pairs[i, 1] is y[i]
    """
    return shape.join(a, b)


@builtin
def split(a: Any) -> values.tuple:
    """Splits a tensor along a last dimension of 2: the inverse of `kl.join`.

    >>> x, y = kl.split(pairs)
    """
    return shape.split(a)


@builtin
def interleave(a: Any, b: Any) -> tensor:
    """Interleaves two tensors along the last dimension: a0, b0, a1, b1, ...

    >>> y = kl.interleave(even, odd)
    """
    joined = shape.join(a, b)
    sides = joined.type.shape
    if len(sides) == 1:
        return joined
    return _shape.reshape(joined, (*sides[:-2], sides[-2] * 2))


@builtin
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> tensor:
    """Concatenates two tiles along a dimension. The order is always kept, even with `can_reorder`.

    >>> y = kl.cat(left, right)
    """
    return shape.cat(input, other, dim)


@builtin
def flip(x: Any, dim: Any = None) -> tensor:
    """Reverses the elements along a dimension, by default the last.

    >>> y = kl.flip(x)
    """
    return shape.flip(x, dim)


@builtin
def gather(src: Any, index: Any, axis: Any) -> tensor:
    """Gathers elements along an axis: `result[i, j] = src[index[i, j], j]` for axis 0 of a matrix.

    The shapes must agree except along the axis. An index outside the source is undefined behaviour.

    >>> y = kl.gather(x, kl.arange(0, N) ^ 1, 0)
    """
    return shape.gather(src, index, axis)


@builtin
def histogram(input: Any, num_bins: Any, mask: Any = None) -> tensor:
    """Counts how often each of 0, ..., num_bins - 1 occurs in a rank-1 tile of integers; int32. Other values are
    ignored.

    >>> counts = kl.histogram(x, 64, mask=offsets < n)
    """
    return shape.histogram(input, num_bins, mask)


@builtin
def sort(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """Sorts along the last dimension. NaN comes last in ascending order; +0 and -0 are equal, in any order.

    >>> y = kl.sort(x)
    """
    return shape.sort(x, dim, descending)


@builtin
def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> tensor:
    """The k greatest elements along the last dimension, greatest first (with `descending=False` the k least, least
    first).

    >>> best = kl.topk(x, 8)
    """
    return shape.topk(x, k, dim, descending)


@builtin
def bitonic_merge(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """Sorts a bitonic sequence, one that rises and then falls or the reverse, along the last dimension.

    >>> y = kl.bitonic_merge(kl.cat(ascending, kl.flip(other)))
    """
    return shape.sort(x, dim, descending)


@builtin
def item(input: Any) -> tensor:
    """The only element of a tile, as a scalar.

    >>> first = kl.sum(x, keep_dims=True).item()
    """
    return shape.unsplat(semantic.to_tensor(input))


# Some functions above have a parameter `shape`; they refer to the module by this name.
_shape = shape

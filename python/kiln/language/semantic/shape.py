"""Shapes: creating tiles, broadcasting, reshaping, transposing, joining, subscripts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from .. import values
from ..types import block_type, check_shape, int1, int32, of_shape
from ..values import constexpr, is_number, tensor, unwrap
from .build import array_i32, constant, emit, emit_many, emitter, error, i32, shaped, splat
from .cast import cast, scalar_type
from .operand import constexpr_int, describe, to_tensor
from .promotion import broadcast_exact, broadcast_pair, expand_front


def shape_argument(shape: Any, argument: str = "shape") -> builtins.tuple[int, ...]:
    """A shape given as a tuple, a list or one number, for the parameter `argument`."""
    shape = unwrap(shape)
    if isinstance(shape, int) and not isinstance(shape, bool):
        shape = (shape,)
    if isinstance(shape, tensor):
        check_shape([shape], argument)  # type: ignore[list-item]
    if not isinstance(shape, (builtins.tuple, list, values.tuple)):
        raise error(f"expected a shape (a tuple of constexpr sides), got {describe(shape)}", argument=argument)
    return check_shape([unwrap(side) for side in shape], argument)


def spread(first: Any, rest: Sequence[Any]) -> list[Any]:
    """Arguments given one by one or as one sequence: `f(x, 1, 0)` or `f(x, (1, 0))`."""
    first = [unwrap(v) for v in first]
    if len(first) == 1 and isinstance(first[0], (builtins.tuple, list, values.tuple)):
        first = [unwrap(v) for v in first[0]]
    return first + [unwrap(v) for v in rest]


def axis_argument(axis: Any, rank: int, what: str) -> int:
    """An axis as a non-negative number; negative ones count from the end."""
    number = constexpr_int(axis, f"the axis of {what}", "axis")
    if not -rank <= number < rank:
        raise error(
            f"expected an axis of {what} in [{-rank}, {rank}) (because the tile has rank {rank}), got {number}",
            argument="axis",
        )
    return number % rank


def arange(start: Any, end: Any) -> tensor:
    start, end = (
        constexpr_int(start, "the start of kl.arange", "start"),
        constexpr_int(end, "the end of kl.arange", "end"),
    )
    if end <= start:
        raise error(f"expected an end of kl.arange above its start, got [{start}, {end})", argument="end")
    if not (-(2**31) <= start and end <= 2**31):
        raise error(f"expected a range of kl.arange within 32 bits, got [{start}, {end})")
    check_shape([end - start], "end")
    ty = block_type(int32, [end - start])
    return emit("tile.make_range", [], ty, {"start": i32(start), "end": i32(end) if end < 2**31 else i32(-(2**31))})


def full(shape: Any, value: Any, dtype: Any) -> tensor:
    shape = shape_argument(shape)
    value, dtype = unwrap(value), unwrap(dtype)
    if len(shape) == 1 and shape[0] == 1 and emitter().combining:
        shape = ()  # in a function of scalars, a tile of one element is a scalar
    if is_number(value):
        if dtype is None:
            raise error("expected a dtype for kl.full, got None", "pass dtype=kl.float32", "dtype")
        element = scalar_type(dtype)
        if not element.is_ptr():
            return constant(of_shape(element, shape), value)
    scalar = to_tensor(value, "a number or a scalar as value of kl.full")
    if scalar.type.is_block():
        if scalar.type.numel != 1:
            raise error(f"expected a scalar as value of kl.full, got {scalar.type}", hint="use kl.broadcast_to")
        scalar = unsplat(scalar)
    return splat(scalar if dtype is None else cast(scalar, scalar_type(dtype)), shape)


def unsplat(value: tensor) -> tensor:
    """The only element of a tile, as a scalar."""
    if not value.type.is_block():
        return value
    if value.type.numel != 1:
        raise error(
            f"expected a tile of one element in .item(), got {value.type}", hint="reduce it with kl.sum or kl.max"
        )
    return emit("tile.unsplat", [value], value.type.scalar)


def broadcast_to(value: Any, shape: Any) -> tensor:
    shape = shape_argument(shape)
    value = to_tensor(value)
    source = value.type.shape
    if not source:
        return splat(value, shape)
    fits = len(source) == len(shape) and all(s in (1, d) for s, d in zip(source, shape, strict=False))
    if not fits:
        raise error(
            f"expected a shape of kl.broadcast_to that {list(source)} broadcasts to (because only sides of 1 do),"
            f" got {list(shape)}",
            hint="add axes with x[:, None]" if len(source) < len(shape) else None,
        )
    return broadcast_exact(value, shape)


def broadcast(a: Any, b: Any) -> values.tuple:
    return values.tuple(broadcast_pair(to_tensor(a), to_tensor(b), "kl.broadcast"))


def broadcast_many(operands: Sequence[Any], op: str) -> list[tensor]:
    """Broadcasts all operands to one shape."""
    tensors = [to_tensor(v) for v in operands]
    for i in range(1, len(tensors)):
        tensors[0], tensors[i] = broadcast_pair(tensors[0], tensors[i], op)
    return [broadcast_pair(t, tensors[0], op)[0] for t in tensors]


def reshape(value: Any, shape: Any) -> tensor:
    shape = shape_argument(shape)
    value = to_tensor(value)
    count = 1
    for side in shape:
        count *= side
    have = getattr(value.type, "numel", 1)
    if count != have:
        raise error(
            f"expected a shape of {have} elements in kl.reshape (because {list(value.type.shape)} has that many),"
            f" got {list(shape)} with {count}"
        )
    if not value.type.is_block():
        return splat(value, shape)
    if not shape:
        return unsplat(value)
    if tuple_(value.type.shape) == shape:
        return value
    return emit("tile.reshape", [value], block_type(value.type.scalar, shape))


tuple_ = builtins.tuple


def expand_dims(value: Any, axis: Any) -> tensor:
    """Inserts one or several sides of 1; axes are positions in the result."""
    value = to_tensor(value)
    axis = unwrap(axis)
    axes = [unwrap(a) for a in axis] if isinstance(axis, (builtins.tuple, list, values.tuple)) else [axis]
    rank = len(value.type.shape) + len(axes)
    places = [axis_argument(a, rank, "kl.expand_dims") for a in axes]
    if len(set(places)) != len(places):
        raise error(f"expected different axes in kl.expand_dims, got {axes}")
    for place in sorted(places):
        value = expand_at(value, place)
    return value


def expand_at(value: tensor, place: int) -> tensor:
    if not value.type.is_block():
        return splat(value, (1,))
    shape = list(value.type.shape)
    shape.insert(place, 1)
    return emit("tile.expand_dims", [value], block_type(value.type.scalar, shape), {"axis": i32(place)})


def permute(value: Any, order: Sequence[Any], what: str = "kl.permute") -> tensor:
    value = to_tensor(value)
    rank = len(value.type.shape)
    dims = [constexpr_int(d, f"a dimension of {what}") for d in order]
    dims = [d + rank if d < 0 else d for d in dims]
    if sorted(dims) != list(range(rank)):
        raise error(f"expected a permutation of {list(range(rank))} in {what}, got {dims}")
    if dims == list(range(rank)):
        return value
    shape = [value.type.shape[d] for d in dims]
    return emit("tile.trans", [value], block_type(value.type.scalar, shape), {"order": array_i32(dims)})


def transpose(value: Any, order: Sequence[Any] = ()) -> tensor:
    """Permutes; without an order, swaps the last two dimensions."""
    value = to_tensor(value)
    rank = len(value.type.shape)
    if not order:
        if rank < 2:
            raise error(
                f"expected a tile of rank 2 or more to transpose, got {value.type}", hint="add an axis with x[:, None]"
            )
        order = [*range(rank - 2), rank - 1, rank - 2]
    return permute(value, order, "kl.trans")


def join(a: Any, b: Any) -> tensor:
    a, b = broadcast_pair(to_tensor(a), to_tensor(b), "kl.join")
    if a.type.scalar != b.type.scalar:
        raise error(f"expected two tiles of one type in kl.join, got {a.type.scalar} and {b.type.scalar}")
    scalar = not a.type.is_block()
    if scalar:
        a, b = splat(a, (1,)), splat(b, (1,))
    result = emit("tile.join", [a, b], block_type(a.type.scalar, (*a.type.shape, 2)))
    return reshape(result, (2,)) if scalar else result


def split(value: Any) -> values.tuple:
    value = to_tensor(value)
    shape = value.type.shape
    if not shape or shape[-1] != 2:
        raise error(
            f"expected a last side of 2 in kl.split, got {list(shape)}",
            hint="reshape it to (..., 2) first",
            argument="a",
        )
    scalars = len(shape) == 1
    if scalars:
        value, shape = reshape(value, (1, 2)), (1, 2)
    ty = block_type(value.type.scalar, shape[:-1])
    halves = emit_many("tile.split", [value], [ty, ty])
    if scalars:
        halves = [unsplat(h) for h in halves]
    return values.tuple(halves)


def cat(a: Any, b: Any, axis: Any) -> tensor:
    a, b = to_tensor(a), to_tensor(b)
    if not a.type.is_block() or not b.type.is_block():
        raise error(f"expected two tiles in kl.cat, got {a.type} and {b.type}", hint="use kl.join")
    if a.type.scalar != b.type.scalar or len(a.type.shape) != len(b.type.shape):
        raise error(f"expected tiles of one type and rank in kl.cat, got {a.type} and {b.type}")
    axis = axis_argument(axis, len(a.type.shape), "kl.cat")
    for dim, (x, y) in enumerate(zip(a.type.shape, b.type.shape, strict=False)):
        if dim != axis and x != y:
            raise error(
                f"expected equal sides but along axis {axis} in kl.cat, got {list(a.type.shape)} and"
                f" {list(b.type.shape)}"
            )
    shape = list(a.type.shape)
    shape[axis] += b.type.shape[axis]
    return emit("tile.cat", [a, b], block_type(a.type.scalar, shape), {"axis": i32(axis)})


def subscript(value: Any, index: Any) -> Any:
    """`x[:, None]`: `None` adds a side of 1, `:` keeps one. Tuples and constexprs take integers."""
    if not isinstance(value, tensor):
        if isinstance(value, values.tensor_descriptor):
            raise error(
                "expected an operand that can be subscripted, got a tensor descriptor", hint="use desc.load([i, j])"
            )
        try:
            if isinstance(value, (builtins.tuple, list)):
                value = values.tuple(value)
            return value[index]
        except (TypeError, KeyError):
            raise error(
                f"expected an operand that {describe(index)} can be a subscript of, got {describe(value)}"
            ) from None
        except IndexError:
            raise error(f"expected an index within {len(value)} elements, got {describe(index)}") from None
    index = unwrap(index)
    parts = list(index) if isinstance(index, (builtins.tuple, list, values.tuple)) else [index]
    if value.type.is_ptr() and not any(unwrap(part) is None for part in parts):
        raise error(
            f"expected a tensor before a subscript (because memory is read by kl.load), got {value.type}",
            hint="use kl.load(ptr + index)",
        )
    result, place, kept = value, 0, 0
    rank = len(value.type.shape)
    for part in parts:
        part = unwrap(part)
        if part is None:
            result = expand_at(result, place)
        elif is_full_slice(part):
            kept += 1
            # After the sides that None adds to a scalar, a ':' has no effect.
            if kept > rank and not (rank == 0 and place):
                raise error(
                    f"expected at most {rank} ':' in the subscript (because the tile has rank {rank}), got {kept}"
                )
        else:
            raise error(
                f"expected ':' or None in a subscript of a tensor (because a tile's elements are not addressable),"
                f" got {describe(part)}",
                hint="pick elements with kl.gather, or with kl.sum(kl.where(index == i, x, 0))",
            )
        place += 1
    return result


def is_full_slice(part: Any) -> bool:
    if not isinstance(part, (builtins.slice, values.slice)):
        return False
    return all(unwrap(p) is None for p in (part.start, part.stop, part.step))


def signed_index(value: tensor) -> tensor:
    """Indices and bins are read as signed: widens narrow unsigned ones, so that 200 stays 200."""
    element = value.type.scalar
    return cast(value, int32) if element.is_int_unsigned() and element.int_bitwidth < 32 else value


def gather(source: Any, index: Any, axis: Any) -> tensor:
    source, index = to_tensor(source), to_tensor(index)
    if not index.type.scalar.is_int() or index.type.scalar.is_bool():
        hint = "to choose by a condition use kl.where" if index.type.scalar == int1 else None
        raise error(f"expected integer indices in kl.gather, got {index.type}", hint, argument="index")
    rank = len(source.type.shape)
    if len(index.type.shape) != rank or rank == 0:
        raise error(f"expected a source and indices of one rank in kl.gather, got {source.type} and {index.type}")
    axis = axis_argument(axis, rank, "kl.gather")
    for dim in range(rank):
        if dim != axis and source.type.shape[dim] != index.type.shape[dim]:
            raise error(
                f"expected indices of the source's sides but along axis {axis} in kl.gather, got"
                f" {list(index.type.shape)} for {list(source.type.shape)}"
            )
    result = shaped(index, source.type.scalar)
    return emit("tile.gather", [source, signed_index(index)], result, {"axis": i32(axis)})


def flip(value: Any, dim: Any) -> tensor:
    """Reverses the elements along a dimension, by default the last."""
    value = to_tensor(value)
    rank = len(value.type.shape)
    if rank == 0:
        raise error(f"expected a tile in kl.flip, got {value.type}", value=value)
    axis = axis_argument(-1 if unwrap(dim) is None else dim, rank, "kl.flip")
    side = value.type.shape[axis]
    index = emit_reversed(side)
    for _ in range(rank - 1 - axis):
        index = expand_at(index, len(index.type.shape))
    index = broadcast_exact(expand_front(index, rank), value.type.shape)
    return emit("tile.gather", [value, index], value.type, {"axis": i32(axis)})


def emit_reversed(side: int) -> tensor:
    """side - 1, ..., 1, 0"""
    from .arithmetic import binary

    return binary("-", constexpr(side - 1), arange(0, side))


def histogram(value: Any, bins: Any, mask: Any) -> tensor:
    value = to_tensor(value)
    bins = constexpr_int(bins, "the number of bins of kl.histogram")
    element = value.type.scalar
    if len(value.type.shape) != 1 or not element.is_int() or element.is_bool():
        raise error(
            f"expected integers in a tile of rank 1 in kl.histogram, got {value.type}",
            hint="count what is true with kl.sum" if element == int1 else None,
            argument="input",
        )
    operands = [signed_index(value)]
    if unwrap(mask) is not None:
        flags = broadcast_to(mask, value.type.shape)
        if not flags.type.scalar.is_bool():
            raise error(f"expected a mask of bools in kl.histogram, got {flags.type}", argument="mask")
        operands.append(flags)
    return emit("tile.histogram", operands, block_type(int32, [bins]))


def sort(value: Any, dim: Any, descending: Any) -> tensor:
    value = last_dimension(value, dim, "kl.sort")
    attrs = {"descending": "unit"} if unwrap(descending) else {}
    if value.type.scalar.is_int_unsigned():
        attrs["isUnsigned"] = "unit"
    return emit("tile.sort", [value], value.type, attrs)


def topk(value: Any, count: Any, dim: Any, descending: Any) -> tensor:
    value = last_dimension(value, dim, "kl.topk")
    count = constexpr_int(count, "k of kl.topk")
    side = value.type.shape[-1]
    if not 0 < count <= side:
        raise error(f"expected k of kl.topk between 1 and {side} (the last side), got {count}", argument="k")
    attrs = {} if unwrap(descending) else {"ascending": "unit"}
    if value.type.scalar.is_int_unsigned():
        attrs["isUnsigned"] = "unit"
    return emit("tile.topk", [value], block_type(value.type.scalar, (*value.type.shape[:-1], count)), attrs)


def last_dimension(value: Any, dim: Any, what: str) -> tensor:
    value = to_tensor(value)
    rank = len(value.type.shape)
    if rank == 0 or value.type.scalar.is_ptr():
        raise error(f"expected a tile of numbers in {what}, got {value.type}")
    if unwrap(dim) is not None and axis_argument(dim, rank, what) != rank - 1:
        raise error(
            f"expected the last dimension in {what}, got {unwrap(dim)}",
            hint="permute it to the end with kl.permute",
            argument="dim",
        )
    return value

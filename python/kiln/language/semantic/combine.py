"""Reductions and scans of one tile, or of several together, with any combining function.

Library reductions write their combining function in Python over scalars; it is traced into the op's region like kernel
code. A user's function (a jit function or a function of the language) goes through the front end.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from .. import values
from ..types import Kind, float32, int32, is_legal_side, of_shape, uint32
from ..values import tensor, unwrap
from .arithmetic import binary, compare, extremum, where
from .build import emit_many, emitter, error, i32
from .cast import cast, widened_float
from .operand import describe, kernel_function, to_tensor
from .promotion import broadcast_exact
from .shape import arange, axis_argument, cat, expand_at, gather, reshape, split, transpose

Combine = Callable[..., Any]


def operand_list(operands: Any, what: str) -> tuple[list[tensor], bool]:
    """The tiles to combine, and whether they were passed as a tuple."""
    operands = unwrap(operands)
    several = isinstance(operands, (builtins.tuple, list, values.tuple))
    tiles = [to_tensor(v, f"a tile in {what}") for v in (operands if several else [operands])]
    if not tiles:
        raise error(f"expected at least one tile in {what}, got an empty tuple")
    for tile in tiles:
        if not tile.type.is_block():
            raise error(
                f"expected a tile in {what} (because a scalar has nothing to combine), got {tile.type}", value=tile
            )
        if tile.type.scalar.is_ptr():
            raise error(
                f"expected a tile of numbers in {what}, got {tile.type}", "load it first with kl.load", value=tile
            )
        if tile.type.shape != tiles[0].type.shape:
            raise error(
                f"expected tiles of one shape in {what}, got {list(tiles[0].type.shape)} and {list(tile.type.shape)}",
                value=tile,
            )
    return tiles, several


def combining(function: Any, what: str) -> Any:
    return kernel_function(function, f"a combining function in {what}", "that takes two elements and returns one")


def traced(function: Combine) -> Combine:
    """Marks a combining function of the library."""
    function.__kiln_trace__ = True  # type: ignore[attr-defined]
    return function


def reduce(operands: Any, axis: Any, function: Any, keep_dims: Any = False, what: str = "kl.reduce") -> Any:
    """Combines all elements along an axis (of the whole tile, if the axis is None) into one."""
    tiles, several = operand_list(operands, what)
    shape = tiles[0].type.shape
    rank = len(shape)
    axis = unwrap(axis)
    keep = bool(unwrap(keep_dims))
    if isinstance(axis, (builtins.tuple, list, values.tuple)):
        raise error(
            f"expected one axis or None in {what}, got {describe(axis)}",
            hint="reduce one axis after the other",
            value=axis,
        )
    if axis is None:
        results = reduce_all(tiles, function, what)
    else:
        place = axis_argument(axis, rank, what)
        results = reduce_axis(tiles, place, function, what)
    if keep:
        for i, result in enumerate(results):
            if axis is None:
                for _ in range(rank):
                    result = expand_at(result, 0)
            else:
                result = expand_at(result, place)
            results[i] = result
    return values.tuple(results) if several else results[0]


def reduce_axis(tiles: list[tensor], place: int, function: Any, what: str) -> list[tensor]:
    rest = [side for dim, side in enumerate(tiles[0].type.shape) if dim != place]
    elements = [t.type.scalar for t in tiles]
    function = combining(function, what)
    region = emitter().combine_region(function, elements)
    if region is None:
        return reduce_in_steps(tiles, place, function)
    results = [of_shape(e, rest) for e in elements]
    return emit_many("tile.reduce", tiles, results, {"axis": i32(place)}, regions=[region])


def reduce_in_steps(tiles: list[tensor], place: int, function: Any) -> list[tensor]:
    """A reduction with a function that accesses memory: combines neighbours, each pair once, until one is left."""
    while (side := tiles[0].type.shape[place]) > 1:
        last: list[tensor] = []
        if side % 2:
            last = [part_along(t, place, side - 1, 1) for t in tiles]
            tiles = [part_along(t, place, 0, side - 1) for t in tiles]
        pairs = [neighbours(t, place) for t in tiles]
        tiles = in_step([p[0] for p in pairs] + [p[1] for p in pairs], function, len(tiles))
        if last:
            tiles = [cat(t, end, place) for t, end in zip(tiles, last, strict=True)]
    rest = [side for dim, side in enumerate(tiles[0].type.shape) if dim != place]
    return [reshape(t, rest) for t in tiles]


def in_step(operands: list[tensor], function: Any, count: int) -> list[tensor]:
    """Applies `function` to two groups of `count` tiles, element by element. If a flag follows the groups, the result
    is the second group where the flag is false."""
    kinds = [t.type.scalar for t in operands[:count]]
    region = emitter().combine_step(function, kinds, guarded=len(operands) > 2 * count)
    return emit_many("tile.map", operands, [t.type for t in operands[:count]], regions=[region])


def neighbours(tile: tensor, place: int) -> tuple[tensor, tensor]:
    """Elements 0, 2, 4, … and 1, 3, 5, … along a dimension."""
    shape = list(tile.type.shape)
    pairs = reshape(tile, [*shape[:place], shape[place] // 2, 2, *shape[place + 1 :]])
    order = [dim for dim in range(len(shape) + 1) if dim != place + 1]
    even, odd = split(transpose(pairs, [*order, place + 1]))
    return even, odd


def part_along(tile: tensor, place: int, first: int, count: int) -> tensor:
    """`count` elements along a dimension, from `first` on."""
    shape = list(tile.type.shape)
    shape[place] = count
    return gather(tile, binary("+", along(place, shape), first), place)


def reduce_all(tiles: list[tensor], function: Any, what: str) -> list[tensor]:
    """Reduces to scalars: flattened to one dimension if that is a legal side, else innermost dimension first."""
    count = tiles[0].type.numel
    if is_legal_side(count):
        return reduce_axis([reshape(t, (count,)) for t in tiles], 0, function, what)
    while tiles[0].type.is_block():
        tiles = reduce_axis(tiles, len(tiles[0].type.shape) - 1, function, what)
    return tiles


def scan(operands: Any, axis: Any, function: Any, reverse: Any = False, what: str = "kl.associative_scan") -> Any:
    """The running combination along an axis, from the end if reversed."""
    tiles, several = operand_list(operands, what)
    place = axis_argument(axis, len(tiles[0].type.shape), what)
    function = combining(function, what)
    region = emitter().combine_region(function, [t.type.scalar for t in tiles])
    if region is None:
        results = scan_in_steps(tiles, place, function, bool(unwrap(reverse)))
        return values.tuple(results) if several else results[0]
    attrs = {"axis": i32(place)}
    if unwrap(reverse):
        attrs["reverse"] = "unit"
    results = emit_many("tile.scan", tiles, [t.type for t in tiles], attrs, regions=[region])
    return values.tuple(results) if several else results[0]


def scan_in_steps(tiles: list[tensor], place: int, function: Any, reverse: bool) -> list[tensor]:
    """A scan with a function that accesses memory: combines each element with the one 1, 2, 4, … before it (after it,
    if reversed)."""
    shape = tiles[0].type.shape
    side = shape[place]
    index = along(place, shape)
    distance = 1
    while distance < side:
        other = binary("+" if reverse else "-", index, distance)
        there = compare("<", other, side) if reverse else compare(">=", other, 0)
        before = [gather(t, where(there, other, index), place) for t in tiles]
        tiles = in_step([*before, *tiles, there], function, len(tiles))
        distance *= 2
    return tiles


# --- combining functions of the library -------------------------------------------------------------------------------


@traced
def add(a: tensor, b: tensor) -> Any:
    return binary("+", a, b)


@traced
def multiply(a: tensor, b: tensor) -> Any:
    return binary("*", a, b)


@traced
def exclusive_or(a: tensor, b: tensor) -> Any:
    return binary("^", a, b)


@traced
def inclusive_or(a: tensor, b: tensor) -> Any:
    return binary("|", a, b)


@traced
def maximum(a: tensor, b: tensor) -> Any:
    return extremum("max", a, b)


@traced
def minimum(a: tensor, b: tensor) -> Any:
    return extremum("min", a, b)


def _first(op: str, tie_left: bool) -> Combine:
    """Keeps the pair whose value is `op` the other's; on a tie the lower index if `tie_left`, else either."""

    @traced
    def combine(value1: tensor, index1: tensor, value2: tensor, index2: tensor) -> Any:
        better = compare(op, value1, value2)
        if tie_left:
            tie = binary("&", compare("==", value1, value2), compare("<", index1, index2))
            better = binary("|", better, tie)
        return where(better, value1, value2), where(better, index1, index2)

    return combine


ARG = {(op, tie): _first(op, tie) for op in (">", "<") for tie in (False, True)}


# --- library reductions -----------------------------------------------------------------------------------------------


def sum_type(element: Any) -> Any:
    """The accumulation type: 32 bits for narrower integers; None for types that are summed as they are."""
    if element.is_int() and element.int_bitwidth < 32:
        return int32 if element.is_int_signed() else uint32
    return None


def extremum_reduce(which: str, value: Any, axis: Any, indices: Any, tie_left: Any, keep_dims: Any) -> Any:
    """`which` is 'max' or 'min'."""
    what = f"kl.{which}"
    value = widened_float(to_tensor(value, f"a tile in {what}"))
    operand_list(value, what)
    if unwrap(indices):
        op = ">" if which == "max" else "<"
        return with_indices(value, axis, ARG[op, bool(unwrap(tie_left))], keep_dims, what)
    element = value.type.scalar
    if element.kind() is Kind.FLOATING:
        if element.primitive_bitwidth < 32:
            value = cast(value, float32)
    elif element.int_bitwidth < 32:
        value = cast(value, int32)
    return reduce(value, axis, maximum if which == "max" else minimum, keep_dims, what)


def with_indices(value: tensor, axis: Any, function: Combine, keep_dims: Any, what: str) -> Any:
    """The combined value and its index along the axis (in the flattened tile, if the axis is None)."""
    shape = value.type.shape
    if not shape:
        message = f"expected a tile in {what} (because a scalar has nothing to combine), got {value.type}"
        raise error(message, value=value)
    axis = unwrap(axis)
    rank = len(shape)
    if axis is None:
        index, stride = None, 1
        for dim in reversed(range(rank)):
            part = binary("*", along(dim, shape), stride)
            index = part if index is None else binary("+", part, index)
            stride *= shape[dim]
    else:
        index = along(axis_argument(axis, rank, what), shape)
    return reduce((value, index), axis, function, keep_dims, what)


def along(place: int, shape: Sequence[int]) -> tensor:
    """0, 1, 2, ... along one dimension of a shape."""
    index = arange(0, shape[place])
    for dim in range(len(shape)):
        if dim != place:
            index = expand_at(index, min(dim, len(index.type.shape)))
    return broadcast_exact(index, shape)


def integer_only(value: Any, what: str) -> tensor:
    value = to_tensor(value, f"a tile in {what}")
    if not value.type.scalar.is_int():
        raise error(f"expected integers in {what} (because it combines bits), got {value.type}", value=value)
    return value

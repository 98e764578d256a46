"""Operations across elements: reductions, scans, sorting, gathering, counting, matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import ON_GPU, extreme, integer_arithmetic
from .evaluate import LIMIT, Frame, Value, convert, inexact
from .kinds import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    INT1,
    INT8,
    INT32,
    UINT32,
    Array,
    Kind,
    Undefined,
    rounded,
    ulp,
)  # fmt: skip
from .operation import register
from .program import Node, Renderer
from .shapes import is_legal_side

# --- sums whose order does not matter, and bounds for those where it does ---------------------------------------------


def any_order(x: Array, axis: int, kind: Kind) -> Array:
    """Where sums of these floats are exact in every order: all terms are multiples of one unit, and the total fits
    above it."""
    x = np.moveaxis(x.astype(np.float64), axis, -1)
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0))
        whole = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = np.where(whole == 0, 2000, exponent - 53 + np.frexp((whole & -whole).astype(np.float64))[1] - 1)
        unit = lowest.min(-1)
        total = np.abs(x).sum(-1)
        fits = total <= np.minimum(np.ldexp(1.0, np.minimum(unit + kind.precision, 1000)), kind.largest)
        return np.isfinite(total) & fits & (unit > kind.least - kind.precision)


def float_sum(v: Value, axis: int, inner: Kind, result: Kind) -> Value:
    """A sum taken in `inner` in any order, then rounded to `result`."""
    x = v.data.astype(np.longdouble if inner == F64 else np.float64)
    with np.errstate(all="ignore"):
        total = x.sum(axis)
        error = np.abs(x).sum(axis).astype(np.float64) * x.shape[axis] * 2.0**-inner.precision + v.error.sum(axis)
        if v.err is None:
            free = any_order(v.data, axis, inner)
            if np.all(free):
                return Value(result, rounded(rounded(total, inner), result))
            error = np.where(free, 0, error)
        error = np.where(np.isfinite(total.astype(np.float64)), error, np.inf)
        # A partial sum may overflow where the total does not.
        error = np.where(np.abs(x).sum(axis) < inner.largest, error, np.inf)
        return inexact(result, total, error + ulp(total, inner))


# --- meaning ----------------------------------------------------------------------------------------------------------


def flattened(v: Value, axis: int | None) -> tuple[Value, int]:
    return (v.moved(np.ravel), 0) if axis is None else (v, axis)


def kept(value: Value, node: Node, rank: int) -> Value:
    if not node.attrs["keep"]:
        return value
    axis = node.attrs["axis"]
    return value.moved(lambda x: np.expand_dims(x, tuple(range(rank)) if axis is None else axis))


def widened_extremum(v: Value) -> Value:
    """Minima and maxima; those of narrow types are returned as fp32 or int32."""
    if v.kind.bits < 32:
        return convert(v, F32 if v.kind.is_float else INT32)
    return v


def ordered(v: Value, axis: int, which: str) -> tuple[Array, Array]:
    """The positions of the extrema, and whether there are ties."""
    data = v.exact()
    plain = data.astype(np.float64) if v.kind.is_narrow else data
    if v.kind.is_float and np.any(np.isnan(plain)):
        raise Undefined("NaN has no order")
    place = (np.argmax if which == "max" else np.argmin)(plain, axis)
    best = np.expand_dims(np.take_along_axis(plain, np.expand_dims(place, axis), axis).squeeze(axis), axis)
    return place, (plain == best).sum(axis) > 1


def reduce_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    rank, way = len(v.shape), node.attrs["way"]
    v, axis = flattened(v, node.attrs["axis"])
    with np.errstate(all="ignore"):
        if way == "sum":
            if v.kind.is_float:
                result = float_sum(v, axis, F32 if v.kind.is_narrow else v.kind, v.kind)
            else:
                kind = v.kind if v.kind.bits >= 32 else INT32 if v.kind.sort == "int" else UINT32
                result = Value(kind, convert(v, kind).data.sum(axis, dtype=kind.dtype))
        elif way in ("max", "min"):
            v = widened_extremum(v)
            if v.kind.is_float:
                result = Value(v.kind, extreme(way, v.data, axis), None if v.err is None else v.err.max(axis))
            else:
                result = Value(v.kind, v.data.max(axis) if way == "max" else v.data.min(axis))
        elif way in ("argmax", "argmin", "max_at", "min_at"):
            which = "max" if "max" in way else "min"
            if v.kind == BF16:
                v = convert(v, F32)
            place, ties = ordered(v, axis, which)
            if not node.attrs["left"] and np.any(ties):
                raise Undefined("any of the equals")
            result = Value(INT32, place)
            if way.endswith("_at"):
                best = v.moved(lambda x: np.take_along_axis(x, np.expand_dims(place, axis), axis).squeeze(axis))
                return [kept(best, node, rank), kept(result, node, rank)]
        else:
            if v.kind.is_float:
                raise Undefined("bits of floats")
            result = Value(v.kind, {"xor_sum": np.bitwise_xor, "reduce_or": np.bitwise_or}[way].reduce(v.data, axis))
    return [kept(result, node, rank)]


def scan_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    way, axis = node.attrs["way"], node.attrs["axis"]
    if v.kind == BF16:
        v = convert(v, F32)
    if way == "cumsum" and not v.kind.is_float and v.kind.bits < 32:
        v = convert(v, INT32 if v.kind.sort == "int" else UINT32)
    if way == "cumprod" and v.kind == INT1:
        raise Undefined("products of bools")
    if node.attrs["reverse"]:
        v = v.moved(lambda x: np.flip(x, axis))
    with np.errstate(all="ignore"):
        if not v.kind.is_float:
            result = Value(v.kind, (np.cumsum if way == "cumsum" else np.cumprod)(v.data, axis, dtype=v.kind.dtype))
        elif v.kind.is_fp8:
            raise Undefined("little is left of running sums in fp8")
        elif way == "cumsum":
            x = v.data.astype(np.longdouble if v.kind == F64 else np.float64)
            total, size = np.cumsum(x, axis), np.cumsum(np.abs(x), axis).astype(np.float64)
            if v.err is None and np.all(any_order(v.data, axis, v.kind)):
                result = Value(v.kind, total)
            else:
                error = size * x.shape[axis] * 2.0**-v.kind.precision + np.cumsum(v.error, axis)
                good = np.isfinite(size) & (np.sum(np.abs(x), axis, keepdims=True) < v.kind.largest)
                result = inexact(v.kind, total, np.where(good, error, np.inf))
        else:
            x = v.exact().astype(np.longdouble)
            if np.any(~np.isfinite(x)) or np.abs(np.log2(np.abs(np.where(x == 0, 1, x)))).sum(axis).max() > 12:
                raise Undefined("a product that may leave the range")
            total = np.cumprod(x, axis)
            error = np.abs(total).astype(np.float64) * x.shape[axis] * 2.0 ** (1 - v.kind.precision)
            result = inexact(v.kind, total, error)
    if node.attrs["reverse"]:
        result = result.moved(lambda x: np.flip(x, axis))
    return [result]


# User functions over tuples of elements: name: (text, number of operands, function, commutative).
def _affine(a: list[Array], b: list[Array], kind: Kind) -> list[Array]:
    def times(x: Array, y: Array) -> Array:
        return integer_arithmetic("*", x, y, kind)

    return [times(a[0], b[0]), integer_arithmetic("+", times(a[1], b[0]), b[1], kind)]


def _larger(a: list[Array], b: list[Array], kind: Kind) -> list[Array]:
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return [np.where(first, x, y) for x, y in zip(a, b, strict=True)]


COMBINE: dict[str, tuple[list[str], int, Any, bool]] = {
    "star": (
        ["def {f}(a, b):", "    return a * b + a + b"], 1,
        lambda a, b, k: [integer_arithmetic(
            "+", integer_arithmetic("+", integer_arithmetic("*", a[0], b[0], k), a[0], k), b[0], k)], True,
    ),
    "least": (["def {f}(a, b):", "    return kl.where(a < b, a, b)"], 1,
              lambda a, b, k: [np.where(a[0] < b[0], a[0], b[0])], True),
    "total_and_bits": (
        ["def {f}(a, p, b, q):", "    return a + b, p ^ q"], 2,
        lambda a, b, k: [integer_arithmetic("+", a[0], b[0], k), a[1] ^ b[1]], True,
    ),
    "larger": (
        ["def {f}(a, p, b, q):", "    first = (a > b) | ((a == b) & (p < q))",
         "    return kl.where(first, a, b), kl.where(first, p, q)"], 2, _larger, True,
    ),
    "affine": (["def {f}(a, p, b, q):", "    return a * b, p * b + q"], 2, _affine, False),
    "first": (["def {f}(a, b):", "    return a"], 1, lambda a, b, k: [a[0] + np.zeros_like(b[0])], False),
    "last": (["def {f}(a, b):", "    return b"], 1, lambda a, b, k: [b[0] + np.zeros_like(a[0])], False),
}  # fmt: skip


def combine_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    kind, axis = args[0].kind, node.attrs["axis"]
    _, count, function, _ = COMBINE[node.attrs["function"]]
    if not kind.is_integer or any(v.kind != kind or v.shape != args[0].shape for v in args) or len(args) != count:
        raise Undefined("integers of one kind and shape")
    columns = [np.moveaxis(v.data, axis, 0) for v in args]
    if node.attrs["reverse"]:
        columns = [c[::-1] for c in columns]
    running = [[c[0] for c in columns]]
    with np.errstate(all="ignore"):
        for i in range(1, len(columns[0])):
            running.append([np.asarray(x, kind.dtype) for x in function(running[-1], [c[i] for c in columns], kind)])
    if node.attrs["way"] == "reduce":
        return [kept(Value(kind, last), node, len(args[0].shape)) for last in running[-1]]
    if node.attrs["reverse"]:
        running.reverse()
    return [Value(kind, np.moveaxis(np.stack([step[i] for step in running]), 0, axis)) for i in range(count)]


def sort_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    plain = v.data.astype(np.float64) if v.kind.is_narrow else v.data
    if v.kind.is_float and np.any(np.isnan(plain)):
        raise Undefined("where NaN goes")
    data = np.sort(plain, -1)
    if node.attrs["falling"]:
        data = np.flip(data, -1)
    # Sorting moves no element of a row further than the largest error in that row.
    err = None if v.err is None else np.broadcast_to(v.err.max(-1, keepdims=True), v.shape)
    if node.attrs["count"]:
        data = data[..., : node.attrs["count"]]
        err = None if err is None else err[..., : node.attrs["count"]]
    return [Value(v.kind, data.astype(v.kind.dtype), err)]


def gather_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    source, index = args
    axis = node.attrs["axis"]
    fits = len(source.shape) == len(index.shape) and all(
        x == y for d, (x, y) in enumerate(zip(source.shape, index.shape, strict=False)) if d != axis
    )
    place = index.data
    if not fits or np.any(place < 0) or np.any(place >= source.shape[axis]):
        raise Undefined("an index outside")
    return [source.moved(lambda x: np.take_along_axis(x, place.astype(np.int64), axis))]


def histogram_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    data = args[0].data
    if len(data.shape) != 1 or not args[0].kind.is_integer:
        raise Undefined("integers of rank 1")
    if len(args) > 1:
        data = data[np.broadcast_to(args[1].data, data.shape)]
    bins = np.arange(node.attrs["bins"])
    return [Value(INT32, (data[None, :].astype(object) == bins[:, None]).sum(1).astype(np.int32))]


def softmax_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    axis = node.attrs["axis"]
    if v.kind not in (F32, F64) or not np.all(np.isfinite(v.exact())):
        raise Undefined("finite fp32 and fp64")
    x = v.data.astype(np.longdouble)
    with np.errstate(all="ignore"):
        # Subtracting the maximum rounds, and exp turns that absolute error into a relative one.
        lower = x - x.max(axis, keepdims=True)
        y = np.exp(lower)
        y = y / y.sum(axis, keepdims=True)
        steps = v.shape[axis] + 16 + 4 * np.abs(lower).astype(np.float64)
        error = steps * 2.0**-v.kind.precision * y.astype(np.float64) + 4 * 2.0**v.kind.least
    return [inexact(v.kind, y, error, 4)]


# The relative error of the product of two f32 inputs: tf32 truncates after 10 bits, bf16 after 7.
PRECISIONS = {"tf32": 2.0**-9, "tf32x3": 2.0**-19, "bf16x3": 2.0**-13, "bf16x6": 2.0**-19}


def is_cut_off(depth: int, kind: Kind, limit: int | None) -> bool:
    """Whether a tensor core may accumulate fp8 with its own limited precision."""
    return bool(ON_GPU and kind.is_fp8 and (limit is None or limit >= depth))


def dot_error(depth: int, kind: Kind, result: Kind, precision: str | None, limit: int | None) -> float:
    """The largest error of a matrix product, relative to the sum of the magnitudes of its terms.

    Sums of f16 are taken in f32 and rounded at the end; a tensor core rounds after every 16 products or more. Where it
    accumulates fp8 itself, it truncates each of 32 products and the running sum 13 bits below the largest.
    """
    inner = F32 if result == F16 else result
    error = (depth + 2) * 2.0**-inner.precision
    if ON_GPU and result == F16:
        error += (depth / 16 + 1) * 2.0**-F16.precision * 2
    if ON_GPU and kind == F32 and precision is not None:
        error += PRECISIONS[precision]
    if is_cut_off(depth, kind, limit):
        error += (depth / 32 + 1) * 33 * 2.0**-13
    return error


def dot_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    a, b = args[0], args[1]
    result: Kind = node.attrs["result"]
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise Undefined("shapes that do not fit")
    shape = (*a.shape[:-1], b.shape[-1])
    acc = args[2] if len(args) > 2 else Value(result, np.zeros(shape, result.dtype))
    if acc.kind != result or acc.shape != shape:
        raise Undefined("another accumulator")
    if result == INT32:
        with np.errstate(all="ignore"):
            return [Value(INT32, a.data.astype(np.int32) @ b.data.astype(np.int32) + acc.data)]
    with np.errstate(all="ignore"):
        x, y, z = (v.data.astype(np.float64) for v in (a, b, acc))
        if not all(np.all(np.isfinite(t)) for t in (x, y, z)):
            raise Undefined("finite matrices")
        products = np.concatenate([x[..., :, :, None] * y[..., None, :, :], z[..., :, None, :]], -2)
        limit = node.attrs.get("imprecise")
        exact = all(v.err is None for v in (a, b, acc)) and not (ON_GPU and node.attrs.get("precision"))
        exact &= not is_cut_off(x.shape[-1], a.kind, limit)
        if exact and result != F64 and np.all(any_order(products, products.ndim - 2, result)):
            return [Value(result, rounded(products.sum(-2), result))]
        size = np.abs(x) @ np.abs(y) + np.abs(z)
        error = dot_error(x.shape[-1], a.kind, result, node.attrs.get("precision"), limit) * size
        error += np.abs(x) @ b.error + a.error @ np.abs(y) + a.error @ b.error + acc.error
        error += x.shape[-1] * 2.0 ** (result.least - result.precision + 1)
        error = np.where(size < result.largest, error, np.inf)
        return [inexact(result, products.sum(-2), error)]


# --- text -------------------------------------------------------------------------------------------------------------


def reduce_text(node: Node, args: list[str], renderer: Renderer) -> str:
    attrs = node.attrs
    way, keep = attrs["way"], ", keep_dims=True" if attrs["keep"] else ""
    tie = "" if attrs["left"] else ", tie_break_left=False"
    if way.endswith("_at"):
        tie = tie.replace("tie", "return_indices_tie")
        return f"kl.{way[:3]}({args[0]}, {attrs['axis']}, return_indices=True{tie}{keep})"
    tie = tie if way.startswith("arg") else ""
    if way == "sum" and attrs["method"]:
        return f"{args[0]}.sum({attrs['axis']}{keep})"
    return f"kl.{way}({args[0]}, {attrs['axis']}{tie}{keep})"


def scan_text(node: Node, args: list[str], renderer: Renderer) -> str:
    reverse = ", reverse=True" if node.attrs["reverse"] else ""
    return f"kl.{node.attrs['way']}({args[0]}, {node.attrs['axis']}{reverse})"


def combine_text(node: Node, args: list[str], renderer: Renderer) -> str:
    attrs = node.attrs
    name = renderer.fresh("combine")
    lines, count, _, _ = COMBINE[attrs["function"]]
    renderer.functions += ["@kiln.jit", *(line.replace("{f}", name) for line in lines), ""]
    operand = args[0] if count == 1 else f"({', '.join(args)})"
    if attrs["way"] == "reduce":
        return f"kl.reduce({operand}, {attrs['axis']}, {name}{', keep_dims=True' if attrs['keep'] else ''})"
    return f"kl.associative_scan({operand}, {attrs['axis']}, {name}{', reverse=True' if attrs['reverse'] else ''})"


def sort_text(node: Node, args: list[str], renderer: Renderer) -> str:
    falling, count = node.attrs["falling"], node.attrs["count"]
    if count:
        return f"kl.topk({args[0]}, {count}{'' if falling else ', descending=False'})"
    return f"kl.sort({args[0]}{', descending=True' if falling else ''})"


def histogram_text(node: Node, args: list[str], renderer: Renderer) -> str:
    mask = f", mask={args[1]}" if len(args) > 1 else ""
    return f"kl.histogram({args[0]}, {node.attrs['bins']}{mask})"


def dot_text(node: Node, args: list[str], renderer: Renderer) -> str:
    attrs = node.attrs
    acc = f", {args[2]}" if len(args) > 2 else ""
    if attrs.get("precision"):
        acc += f", input_precision='{attrs['precision']}'"
    if attrs.get("imprecise") is not None:
        acc += f", max_num_imprecise_acc={attrs['imprecise']}"
    out = ", out_dtype=kl.float16" if attrs["result"] == F16 else ""
    return f"kl.dot({args[0]}, {args[1]}{acc}{out})"


# --- drawing ----------------------------------------------------------------------------------------------------------


def an_axis(g: Any, a: Any, none: float = 0.0) -> Any:
    return None if g.chance(none) else g.draw.randrange(len(a.shape))


def make_reduce(g: Any) -> None:
    a = g.pick(lambda v: v.shape)
    ways = ["sum"] * 4 + ["max", "min", "argmax", "argmin", "max_at", "min_at"]
    if not a.kind.is_float:
        ways += ["xor_sum", "reduce_or"]
    way = g.draw.choice(ways)
    axis = an_axis(g, a, 0.0 if way.startswith("arg") else 0.25)
    if axis is None and not is_legal_side(a.size):
        axis = 0
    keep, left = g.chance(0.25), g.chance(0.8)
    g.emit("reduce", [a], {"way": way, "axis": axis, "keep": keep, "left": left, "method": g.chance(0.3)})


def make_scan(g: Any) -> None:
    a = g.pick(lambda v: v.shape)
    way = g.draw.choice(["cumsum", "cumsum", "cumprod"])
    g.emit("scan", [a], {"way": way, "axis": an_axis(g, a), "reverse": g.chance(0.4)})


def make_combine(g: Any) -> None:
    a = g.pick(lambda v: v.shape and v.kind.is_integer)
    name = g.draw.choice(list(COMBINE))
    _, count, _, commutative = COMBINE[name]
    way = "reduce" if commutative and g.chance(0.5) else "scan"
    axis = an_axis(g, a)
    if a.shape[axis] > 256:
        raise Undefined("a long axis")
    args = [a] + [g.pick(lambda v: v.like(a)) for _ in range(count - 1)]
    reverse = way == "scan" and g.chance(0.4)
    keep = way == "reduce" and g.chance(0.3)
    g.emit("combine", args, {"way": way, "function": name, "axis": axis, "reverse": reverse, "keep": keep})


def make_sort(g: Any) -> None:
    a = g.pick(lambda v: v.shape and v.kind != INT1)
    count = 0
    if g.chance(0.4):
        count = g.draw.choice([k for k in (1, 2, 3, 4, 6, 8) if k <= a.shape[-1]])
    g.emit("sort", [a], {"falling": g.chance(0.5), "count": count})


def make_gather(g: Any) -> None:
    a = g.pick(lambda v: v.shape)
    axis = an_axis(g, a)
    index = g.pick(
        lambda v: v.kind.is_integer
        and len(v.shape) == len(a.shape)
        and all(x == y for d, (x, y) in enumerate(zip(v.shape, a.shape, strict=True)) if d != axis)
    )
    side = a.shape[axis]
    mask = min(side & -side if side & (side - 1) else side, 128) - 1
    index = g.emit("binary", [index], {"symbol": "&", "literal": mask, "inline": True})[0]
    g.emit("gather", [a, index], {"axis": axis})


def make_histogram(g: Any) -> None:
    a = g.pick(lambda v: len(v.shape) == 1 and v.kind.is_integer)
    args = [a]
    if g.chance(0.4):
        args.append(g.pick(lambda v: v.shape == a.shape and v.kind == INT1))
    g.emit("histogram", args, {"bins": g.draw.choice([1, 2, 5, 8, 16, 24, 64, 128])})


def make_softmax(g: Any) -> None:
    a = g.pick(lambda v: v.shape and v.kind in (F32, F64))
    g.emit("softmax", [a], {"axis": an_axis(g, a)})


DOT_INPUTS = {
    INT8: [INT32], F16: [F32, F16], BF16: [F32], F32: [F32], F64: [F64], E4M3: [F32, F16], E5M2: [F32, F16],
}  # fmt: skip
DOT_SIDES = (1, 2, 3, 5, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112)


def load_turned(g: Any, kind: Kind, shape: tuple[int, ...]) -> Any:
    """An operand stored in this order of dimensions or in another."""
    if g.chance(0.5):
        return g.load(kind, shape)
    order = list(range(len(shape)))
    g.draw.shuffle(order)
    stored = tuple(shape[order.index(d)] for d in range(len(shape)))
    attrs = {"way": g.draw.choice(["trans", "permute"]), "order": tuple(order), "inline": g.chance(0.5)}
    return g.emit("shape", [g.load(kind, stored)], attrs)[0]


def make_dot(g: Any) -> None:
    try:
        a = g.pick(lambda v: len(v.shape) in (2, 3) and v.kind in DOT_INPUTS)
    except Undefined:
        a = None
    if a is None or g.chance(0.4):
        batch = (g.draw.choice([1, 2, 3]),) if g.chance(0.3) else ()
        shape = (*batch, g.draw.choice(DOT_SIDES), g.draw.choice(DOT_SIDES))
        if np.prod(shape) > LIMIT:
            raise Undefined("a large factor")
        a = load_turned(g, g.draw.choice(list(DOT_INPUTS)), shape)
    m, k = a.shape[-2:]
    batch = a.shape[:-2]
    side = g.draw.choice([s for s in DOT_SIDES if s * max(m, k) <= LIMIT] or [1])
    if np.prod(batch) * m * k * side > 200_000:
        raise Undefined("a large product")
    b = load_turned(g, g.draw.choice([E4M3, E5M2]) if a.kind.is_fp8 else a.kind, (*batch, k, side))
    result = g.draw.choice(DOT_INPUTS[a.kind])
    args = [a, b]
    if g.chance(0.5):
        shape = (*batch, m, side)
        try:
            args.append(g.pick(lambda v: v.kind == result and v.shape == shape))
        except Undefined:
            args.append(g.load(result, shape))
    attrs: dict[str, Any] = {"result": result}
    # The default precision is exact except for fp8; inputs other than f32 lose nothing, whatever precision is asked
    # for.
    if g.chance(0.4):
        attrs["precision"] = g.draw.choice(list(PRECISIONS))
    if a.kind.is_fp8 and g.chance(0.2):
        attrs["imprecise"] = g.draw.choice([0, 1, k])
    g.emit("dot", args, attrs)


def softmax_text(node: Node, args: list[str], renderer: Renderer) -> str:
    return f"kl.softmax({args[0]}, {node.attrs['axis']})"


register("reduce", 12, make_reduce, reduce_value, reduce_text)
register("scan", 4, make_scan, scan_value, scan_text)
register("combine", 4, make_combine, combine_value, combine_text)
register("sort", 3, make_sort, sort_value, sort_text)
register("gather", 3, make_gather, gather_value, lambda n, a, r: f"kl.gather({a[0]}, {a[1]}, {n.attrs['axis']})")
register("histogram", 2, make_histogram, histogram_value, histogram_text)
register("softmax", 1, make_softmax, softmax_value, softmax_text)
register("dot", 5, make_dot, dot_value, dot_text)

"""Elementwise operations: operators, functions, conversions, selection, user functions, inline assembly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kiln import knobs
from kiln.runtime import placement

from .evaluate import Frame, Value, common_shape, convert, inexact
from .kinds import (
    BF16,
    F16,
    F32,
    F64,
    INT1,
    INTEGERS,
    KINDS,
    UNSIGNED,
    Array,
    Kind,
    Undefined,
    meet,
    meet_literal,
    rounded,
    toward_zero,
    ulp,
    wide,
)  # fmt: skip
from .operation import register
from .program import Node, Renderer

COMPARISONS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
BITS = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
SHIFTS = ("<<", ">>")


# --- meaning ----------------------------------------------------------------------------------------------------------


def integer_arithmetic(symbol: str, x: Array, y: Array, kind: Kind) -> Array:
    """`+ - *` that wrap; `// %` that truncate, as in C."""
    if kind == INT1:
        x, y = x.astype(np.uint8), y.astype(np.uint8)
        return (integer_arithmetic(symbol, x, y, UNSIGNED[0]) & 1).astype(bool)
    x, y = np.broadcast_arrays(x, y)
    if symbol in ("//", "%"):
        if np.any(y == 0) or np.any((y == -1) & (x == kind.low) & (kind.sort == "int")):
            raise Undefined("a quotient that does not exist")
        quotient = x // y
        if kind.sort == "int":
            quotient = quotient + ((x - quotient * y != 0) & ((x < 0) != (y < 0))).astype(kind.dtype)
        return quotient if symbol == "//" else x - quotient * y
    return {"+": np.add, "-": np.subtract, "*": np.multiply}[symbol](x, y)


def shift(symbol: str, x: Array, y: Array, kind: Kind, signed: bool) -> Array:
    if np.any(y.astype(object) < 0) or np.any(y.astype(np.float64) >= kind.bits):
        raise Undefined("a shift by as much as there are bits")
    plain = x.astype(np.dtype(f"{'i' if signed and symbol == '>>' else 'u'}{kind.dtype.itemsize}"))
    count = y.astype(plain.dtype)
    return (plain << count if symbol == "<<" else plain >> count).astype(kind.dtype)


def float_arithmetic(symbol: str, a: Value, b: Value, kind: Kind, fused: bool) -> Value:
    """One rounding in `kind`; narrow kinds go through f32."""
    x, y = np.broadcast_arrays(wide(a.data), wide(b.data))
    if symbol in ("/", "%") and np.any(y == 0):
        raise Undefined("the sign of zero decides")
    if symbol == "%":
        a.exact(), b.exact()
        return Value(kind, rounded(np.fmod(x, y), kind))
    result = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[symbol](x, y)
    if symbol == "/" and kind == F32 and ON_GPU:
        return approximate_quotient(result, a, b)
    if a.err is None and b.err is None and not (fused and symbol == "*"):
        return Value(kind, rounded(result, kind))
    ea, eb = np.broadcast_arrays(a.error, b.error)
    x, y = np.abs(x.astype(np.float64)), np.abs(y.astype(np.float64))
    if symbol in "+-":
        error = ea + eb
    elif symbol == "*":
        error = x * eb + y * ea + ea * eb
    else:
        error = np.where(y > eb, (ea + x / y * eb) / np.maximum(y - eb, 1e-300), np.inf)
    return inexact(kind, result, error)


# On a GPU, `/` and kl.sqrt of fp32 are instructions accurate to 2 ulp.
ON_GPU = placement.names_gpu(knobs.target)


def approximate_quotient(result: Array, a: Value, b: Value) -> Value:
    """A quotient within 3 ulp; with exact operands, NaN and infinity are exact."""
    x, y, ea, eb = np.broadcast_arrays(
        *(np.abs(wide(v).astype(np.float64)) for v in (a.data, b.data, a.error, b.error))
    )
    error = np.where(y > eb, (ea + x / y * eb) / np.maximum(y - eb, 1e-300), np.inf)
    value = inexact(F32, result, error, 3.0)
    if a.err is None and b.err is None:
        value.err = np.where(np.isfinite(result.astype(np.float32)), value.err, 0.0)
    return value


def operate(symbol: str, a: Value, b: Value, kind: Kind, left: Kind, fused: bool = False) -> Value:
    """A binary operator on operands already converted to their common type; `left` is the type of the left one before
    that."""
    with np.errstate(all="ignore"):
        if symbol in COMPARISONS:
            return Value(INT1, COMPARISONS[symbol](a.exact(), b.exact()))
        if symbol in BITS:
            return Value(kind, BITS[symbol](a.data, b.data))
        if symbol in SHIFTS:
            return Value(kind, shift(symbol, *np.broadcast_arrays(a.data, b.data), kind, left.sort == "int"))
        if kind.is_float:
            return float_arithmetic(symbol, a, b, kind, fused)
        return Value(kind, integer_arithmetic(symbol, a.data, b.data, kind))


def met(node: Node, args: list[Value], division: bool = False) -> tuple[Value, Value, Kind]:
    """The operands of a node (one may be a plain number), converted to their common type."""
    if "literal" not in node.attrs:
        kind = meet(args[0].kind, args[1].kind, division)
        return convert(args[0], kind), convert(args[1], kind), kind
    number = node.attrs["literal"]
    kind = meet_literal(args[0].kind, number, division)
    plain = Value(kind, rounded(np.float64(number), kind) if kind.is_float else np.asarray(number, kind.dtype))
    own = convert(args[0], kind)
    return (plain, own, kind) if node.attrs.get("left") else (own, plain, kind)


def binary_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    symbol = node.attrs["symbol"]
    a, b, kind = met(node, args, symbol in ("/", "//", "%"))
    left = kind if "literal" in node.attrs and node.attrs.get("left") else args[0].kind
    if symbol == "/" and not kind.is_float:
        a, b, kind = convert(a, F32), convert(b, F32), F32
    if symbol == "//" and kind.is_float:
        raise Undefined("floats have no floor division")
    if (symbol in BITS or symbol in SHIFTS) and kind.is_float:
        raise Undefined("bits of floats")
    return [operate(symbol, a, b, kind, left, frame.program.fused)]


def extreme(which: str, x: Array, axis: int) -> Array:
    """The extrema of f32 or f64 along an axis, ignoring NaN. (numpy's fmax and fmin are right for quiet NaN only: next
    to a signalling NaN they return NaN, which the next step of a reduction then drops.)"""
    empty = np.isnan(x)
    kept = np.where(empty, x.dtype.type(-np.inf if which == "max" else np.inf), x)
    found = kept.max(axis) if which == "max" else kept.min(axis)
    return np.where(empty.all(axis), x.dtype.type(np.nan), found)


def extremum(which: str, a: Value, b: Value, kind: Kind, every: bool = False) -> Value:
    """The extremum of each pair; a NaN is ignored, or with `every` it is the result."""
    function = np.maximum if which == "max" else np.minimum
    with np.errstate(all="ignore"):
        if not kind.is_float:
            return Value(kind, function(a.data, b.data))
        x, y = np.broadcast_arrays(wide(a.data), wide(b.data))
        data = function(x, y) if every else extreme(which, np.stack([x, y]), 0)
        if a.err is None and b.err is None:
            return Value(kind, rounded(data, kind))
        return Value(kind, rounded(data, kind), np.maximum(*np.broadcast_arrays(a.error, b.error)))


def extremum_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    a, b, kind = met(node, args)
    return [extremum(node.attrs["which"], a, b, kind, node.attrs["every"])]


def unary_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    symbol, kind = node.attrs["symbol"], v.kind
    with np.errstate(all="ignore"):
        if symbol == "-":
            return [Value(kind, np.negative(v.data) if kind.is_float else np.zeros_like(v.data) - v.data, v.err)]
        if symbol == "~":
            return [Value(kind, np.invert(v.data))]
        if symbol == "not":
            return [Value(INT1, convert(v, INT1).data == 0)]
        if kind.sort == "int" and np.any(v.data == kind.low):
            raise Undefined("the least number has no absolute value")
        return [Value(kind, np.abs(v.data), v.err)]


# name: (function, text, whether it is monotonic everywhere)
FUNCTIONS: dict[str, tuple[Any, str, bool]] = {
    "exp": (np.exp, "kl.exp", True),
    "exp2": (np.exp2, "kl.exp2", True),
    "log": (np.log, "kl.log", True),
    "log2": (np.log2, "kl.log2", True),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "kl.rsqrt", True),
    "sin": (np.sin, "kl.sin", False),
    "cos": (np.cos, "kl.cos", False),
    "erf": (lambda x: np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape), "kl.erf", True),
    "tanh": (np.tanh, "kl.extra.libdevice.tanh", True),
    "atan": (np.arctan, "kl.extra.libdevice.atan", True),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), "kl.sigmoid", True),
}
EXACT = {"sqrt": (np.sqrt, "kl.sqrt"), "floor": (np.floor, "kl.floor"), "ceil": (np.ceil, "kl.ceil"),
         "sqrt_rn": (np.sqrt, "kl.sqrt_rn"), "rint": (np.rint, "kl.extra.libdevice.rint")}  # fmt: skip


def function_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    name = node.attrs["name"]
    if v.kind not in (F32, F64):
        raise Undefined("defined on fp32 and fp64")
    with np.errstate(all="ignore"):
        if name in EXACT:
            root = Value(v.kind, EXACT[name][0](v.exact()))
            if name == "sqrt" and v.kind == F32 and ON_GPU:
                root = inexact(F32, root.data, np.zeros(v.shape), 3.0)
                root.err = np.where(np.isfinite(root.data), root.err, 0.0)
            return [root]
        function, _, monotone = FUNCTIONS[name]
        x = v.data.astype(np.longdouble if v.kind == F64 else np.float64)
        if name == "rsqrt" and np.any(x == 0):
            raise Undefined("the sign of zero decides")
        y = function(x)
        if v.err is None:
            error = np.zeros(v.shape)
        elif monotone:
            error = np.maximum(abs(function(x + v.err) - y), abs(function(x - v.err) - y)).astype(np.float64)
        else:
            error = v.err
        # The functions are accurate to 2 ulp; sigmoid adds a sum and a quotient, and denormals are not exact.
        ulps = 6.0 if name in ("sigmoid", "erf") else 3.0
        error = error + (2.0**v.kind.least if name == "sigmoid" else 0)
        result = inexact(v.kind, y, error, ulps)
        if v.err is None:  # infinities and NaN of exact arguments are exact
            odd = ~np.isfinite(y)
            result.err = np.where(odd, 0.0, result.err)
        return [result]


def cast_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    kind = node.attrs["kind"]
    if node.attrs.get("rounding") == "rtz":
        if not np.all(np.isfinite(v.exact().astype(np.float64))):
            raise Undefined("infinity has nothing to cut off")
        return [Value(kind, toward_zero(v.data, kind))]
    return [convert(v, kind)]


def bitcast_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    kind = node.attrs["kind"]
    data = v.exact()
    if v.kind.is_float and (np.any(data == 0) or np.any(np.isnan(data.astype(np.float64)))):
        raise Undefined("which zero or NaN it is")
    return [Value(kind, data.view(kind.dtype))]


def where_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    condition = convert(args[0], INT1).data
    a, b, kind = met(node, args[1:])
    shape = common_shape(*args)
    err = None if a.err is None and b.err is None else np.where(condition, a.error, b.error)
    data = np.where(condition, a.data, b.data)
    if condition.shape == () and shape != ():
        data = np.broadcast_to(data, shape)
    return [Value(kind, data, err)]


def clamp_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (v,) = args
    if not v.kind.is_float:
        raise Undefined("clamps floats")
    kind = meet(v.kind, F32)  # the bounds are plain numbers, which are fp32 by themselves
    v = convert(v, kind)
    low, high = (Value(kind, rounded(np.float64(n), kind)) for n in node.attrs["ends"])
    every = node.attrs["every"]
    return [extremum("min", extremum("max", v, low, kind, every), high, kind, every)]


def fma_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    common_shape(*args)
    # The factors are converted to their common type first, then that and the addend: converting a factor twice may
    # round twice.
    kind = meet(args[0].kind, args[1].kind)
    a, b = (convert(v, kind) for v in args[:2])
    kind = meet(kind, args[2].kind)
    a, b, c = (convert(v, kind) for v in (a, b, args[2]))
    if not kind.is_float:
        with np.errstate(all="ignore"):
            product = integer_arithmetic("*", a.data, b.data, kind)
            return [Value(kind, integer_arithmetic("+", product, c.data, kind))]
    with np.errstate(all="ignore"):
        x, y, z = (v.data.astype(np.float64) for v in (a, b, c))
        product = x * y
        error = abs(x) * b.error + abs(y) * a.error + a.error * b.error + c.error
        if kind == F64:
            return [inexact(kind, product + z, error + ulp(product, F64))]
        if any(v.err is not None for v in (a, b, c)):
            return [inexact(kind, product + z, error)]
        # The product is exact in f64. The sum is rounded to odd there, so that the final rounding gives the same as
        # from the exact sum.
        total = product + z
        part = total - product
        rest = (product - (total - part)) + (z - part)
        bits = total.view(np.int64) if total.shape else total.reshape(1).view(np.int64).reshape(())
        fix = (rest != 0) & np.isfinite(rest) & (bits & 1 == 0)
        step = np.where((rest > 0) == (total > 0), 1, -1)
        odd = np.where(fix, bits + step, bits).view(np.float64)
        return [Value(kind, rounded(rounded(odd, F32) if kind.is_fp8 else odd, kind))]


def umulhi_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    a, b, kind = met(node, args)
    if kind.is_float or kind.bits not in (32, 64):
        raise Undefined("32- or 64-bit integers")
    half, low = kind.bits // 2, (1 << kind.bits // 2) - 1
    x, y = (v.data.astype(np.dtype(f"u{kind.dtype.itemsize}")).astype(np.uint64) for v in (a, b))
    if kind.bits == 32:
        return [Value(kind, ((x * y) >> np.uint64(32)).astype(np.uint32).astype(kind.dtype))]
    xl, xh, yl, yh = x & np.uint64(low), x >> np.uint64(half), y & np.uint64(low), y >> np.uint64(half)
    with np.errstate(all="ignore"):
        middle = xh * yl + ((xl * yl) >> np.uint64(half))
        other = xl * yh + (middle & np.uint64(low))
        high = xh * yh + (middle >> np.uint64(half)) + (other >> np.uint64(half))
    return [Value(kind, high.astype(kind.dtype))]


def mapped_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    """The result of the MAPPED function on integers of one kind."""
    a, b = args
    if a.kind != b.kind or not a.kind.is_integer or a.shape != b.shape:
        raise Undefined("integers of one kind")
    with np.errstate(all="ignore"):
        first, second = MAPPED_VALUES[node.attrs["way"]](a.data, b.data, a.kind.dtype.type)
    return [Value(a.kind, first), Value(a.kind, second)]


def plain_value(a: Any, b: Any, one: Any) -> tuple[Any, Any]:
    return a * one(2) + b, a - b


def branch_value(a: Any, b: Any, one: Any) -> tuple[Any, Any]:
    even = (a & one(1)) == 0
    first = np.where(a < b, a * one(2) + b, np.where(even, b, b - a))
    return first, np.where((a < b) | ~even, a ^ b, a)


def loop_value(a: Any, b: Any, one: Any) -> tuple[Any, Any]:
    left, total = a & one(7), b
    while (left > 0).any():
        total = np.where(left > 0, total * one(3) + left, total)
        left = np.where(left > 0, left - one(1), left)
    return total, a ^ left


MAPPED_VALUES = {"map": plain_value, "asm": plain_value, "branch": branch_value, "loop": loop_value}
MAPPED = {
    "map": ["return a * 2 + b, a - b"],
    "asm": ["return a * 2 + b, a - b"],
    "branch": [
        "if a < b:", "    first = a * 2 + b", "elif (a & 1) == 0:", "    return b, a", "else:", "    first = b - a",
        "return first, a ^ b",
    ],
    "loop": ["left = a & 7", "while left > 0:", "    b = b * 3 + left", "    left -= 1", "return b, a ^ left"],
}  # fmt: skip


# --- text -------------------------------------------------------------------------------------------------------------


def number_text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def operand_texts(node: Node, args: list[str]) -> tuple[str, str]:
    if "literal" not in node.attrs:
        return args[0], args[1]
    plain = node.attrs.get("constant") or number_text(node.attrs["literal"])
    return (plain, args[0]) if node.attrs.get("left") else (args[0], plain)


def binary_text(node: Node, args: list[str], renderer: Renderer) -> str:
    left, right = operand_texts(node, args)
    symbol = node.attrs["symbol"]
    if node.attrs.get("called") and symbol in "+-*":
        return f"kl.{ {'+': 'add', '-': 'sub', '*': 'mul'}[symbol] }({left}, {right})"
    return f"{left} {symbol} {right}"


def extremum_text(node: Node, args: list[str], renderer: Renderer) -> str:
    left, right = operand_texts(node, args)
    every = ", propagate_nan=kl.PropagateNan.ALL" if node.attrs["every"] else ""
    return f"kl.{node.attrs['which']}imum({left}, {right}{every})"


def unary_text(node: Node, args: list[str], renderer: Renderer) -> str:
    symbol = node.attrs["symbol"]
    return {"abs": f"kl.abs({args[0]})", "not": f"(not {args[0]})"}.get(symbol, f"{symbol}{args[0]}")


def function_text(node: Node, args: list[str], renderer: Renderer) -> str:
    name = node.attrs["name"]
    return f"{(EXACT[name] if name in EXACT else FUNCTIONS[name])[1]}({args[0]})"


def cast_text(node: Node, args: list[str], renderer: Renderer) -> str:
    rounding = ', fp_downcast_rounding="rtz"' if node.attrs.get("rounding") else ""
    return f"{args[0]}.to({node.attrs['kind'].text}{rounding})"


def where_text(node: Node, args: list[str], renderer: Renderer) -> str:
    left, right = operand_texts(node, args[1:])
    return f"kl.where({args[0]}, {left}, {right})"


def clamp_text(node: Node, args: list[str], renderer: Renderer) -> str:
    low, high = node.attrs["ends"]
    every = ", propagate_nan=kl.PropagateNan.ALL" if node.attrs["every"] else ""
    return f"kl.clamp({args[0]}, {low!r}, {high!r}{every})"


def mapped_text(node: Node, args: list[str], renderer: Renderer) -> str:
    name = renderer.fresh("pair")
    lines = [f"    {line}" for line in MAPPED[node.attrs["way"]]]
    renderer.functions += ["@kiln.jit", f"def {name}(a, b):", *lines, ""]
    if node.attrs["way"] != "asm":
        return f"kl.map_elementwise({name}, {args[0]}, {args[1]})"
    kind = node.args[0].kind
    letter, width = ("r", "s32") if kind.bits == 32 else ("l", "s64")
    # Outputs are written before the last input is read, so they must not share a register with an input.
    constraints = ",".join([f"=&{letter}"] * 2 + [letter] * 2)
    return (
        f'kl.inline_asm_elementwise("mad.lo.{width} $0, $2, 2, $3; sub.{width} $1, $2, $3;", "{constraints}",'
        f" [{args[0]}, {args[1]}],"
        f" ({kind.text}, {kind.text}), True, 1, portable={name})"
    )


# --- drawing ----------------------------------------------------------------------------------------------------------


def make_binary(g: Any) -> None:
    a = g.pick()
    kind = a.kind
    if kind.is_float:
        symbol = g.draw.choices(["+", "-", "*", "/", "%", *COMPARISONS], [6, 5, 6, 3, 1] + [1] * 6)[0]
    elif kind == INT1:
        symbol = g.draw.choice([*BITS, *COMPARISONS, "+", "*"])
    else:
        symbol = g.draw.choices(
            ["+", "-", "*", "//", "%", "/", *BITS, *SHIFTS, *COMPARISONS], [5, 4, 4, 2, 2, 1, 2, 2, 2, 2, 2] + [1] * 6
        )[0]
    attrs: dict[str, Any] = {"symbol": symbol, "called": g.chance(0.1), "inline": g.chance(0.5)}
    if g.chance(0.3):
        literal_operand(g, a, symbol, attrs)
        g.emit("binary", [a], attrs)
        return
    b = g.partner(a)
    if symbol in SHIFTS:
        bits = min(a.kind.bits, b.kind.bits) if b.kind.is_integer else 1
        if bits < 8:
            raise Undefined("no integer to shift by")
        b = g.emit("binary", [b], {"symbol": "&", "literal": bits - 1, "inline": True})[0]
    if symbol in ("//", "%") and b.kind.is_integer:
        b = g.emit("binary", [b], {"symbol": "|", "literal": 1, "inline": True})[0]
    g.emit("binary", [a, b] if g.chance(0.5) or symbol in (*SHIFTS, "//", "%") else [b, a], attrs)


def literal_operand(g: Any, a: Any, symbol: str, attrs: dict[str, Any]) -> None:
    if symbol in SHIFTS:
        attrs["literal"] = g.draw.randrange(a.kind.bits)
        return
    attrs["left"] = g.chance(0.3) and symbol not in ("//", "%")
    if a.kind.is_float or (g.chance(0.1) and symbol not in BITS and symbol not in ("//", "%")):
        attrs["literal"] = g.draw.choice([0.5, 2.0, -1.5, 3, 0.1, 1e-3, 100.0, -7, 1.0, 0.0])
    else:
        number = g.draw.choice([1, 2, 3, 5, 7, 8, 16, 100, 127, a.kind.high, a.kind.high // 3, -1, -3, a.kind.low])
        if a.kind.sort != "int":
            number = abs(number)
        if symbol in ("//", "%") and number in (0, -1):
            number = 3
        attrs["literal"] = number
    if g.chance(0.15):
        attrs["constant"] = g.constant(attrs["literal"])


def make_extremum(g: Any) -> None:
    a = g.pick()
    attrs = {
        "which": g.draw.choice(["max", "min"]),
        "every": a.kind.is_float and g.chance(0.3),
        "inline": g.chance(0.5),
    }
    if g.chance(0.3):
        literal_operand(g, a, "max", attrs)
        g.emit("extremum", [a], attrs)
    else:
        g.emit("extremum", [a, g.partner(a)], attrs)


def make_unary(g: Any) -> None:
    a = g.pick()
    symbols = ["-", "abs"] if a.kind.is_float else ["~"] if a.kind == INT1 else ["-", "abs", "~"]
    g.emit("unary", [a], {"symbol": g.draw.choice([*symbols, "not"]), "inline": g.chance(0.5)})


def make_function(g: Any) -> None:
    a = g.pick(lambda v: v.kind in (F32, F64))
    g.emit("function", [a], {"name": g.draw.choice([*FUNCTIONS, *EXACT]), "inline": g.chance(0.5)})


def make_cast(g: Any) -> None:
    a = g.pick()
    kind = g.kind() if g.chance(0.7) else g.draw.choice(KINDS)
    if kind == a.kind:
        raise Undefined("already of that kind")
    attrs = {"kind": kind, "inline": g.chance(0.5)}
    if a.kind in (F32, F64) and kind in (F16, BF16) and g.chance(0.3):
        attrs["rounding"] = "rtz"
    g.emit("cast", [a], attrs)


def make_bitcast(g: Any) -> None:
    a = g.pick(lambda v: v.kind != INT1)
    kind = g.draw.choice([k for k in KINDS if k.bits == a.kind.bits and k != a.kind])
    g.emit("bitcast", [a], {"kind": kind})


def make_where(g: Any) -> None:
    a = g.pick()
    condition = g.partner(a, lambda v: v.kind == INT1) if g.chance(0.8) else g.partner(a)
    if g.chance(0.3):
        attrs: dict[str, Any] = {"inline": g.chance(0.5)}
        literal_operand(g, a, "max", attrs)
        g.emit("where", [condition, a], attrs)
    else:
        g.emit("where", [condition, a, g.partner(a)], {"inline": g.chance(0.5)})


def make_clamp(g: Any) -> None:
    a = g.pick(lambda v: v.kind.is_float)
    g.emit("clamp", [a], {"ends": g.draw.choice([(-1.0, 1.0), (0.0, 6.0), (-3.5, 0.25)]), "every": g.chance(0.3)})


def make_fma(g: Any) -> None:
    a = g.pick(lambda v: v.kind.is_float or v.kind.bits >= 8)
    g.emit("fma", [a, g.partner(a), g.partner(a)], {"inline": g.chance(0.5)})


def make_umulhi(g: Any) -> None:
    a = g.pick(lambda v: v.kind.is_integer and v.kind.bits >= 32)
    g.emit("umulhi", [a, g.partner(a, lambda v: v.kind.is_integer)], {})


def make_mapped(g: Any) -> None:
    a = g.pick(lambda v: v.kind in INTEGERS and v.kind.bits >= 32 and v.shape)
    b = g.pick(lambda v: v.like(a))
    g.emit("mapped", [a, b], {"way": g.draw.choice(list(MAPPED))})


def call_text(name: str) -> Any:
    return lambda node, args, renderer: f"{name}({', '.join(args)})"


register("binary", 30, make_binary, binary_value, binary_text)
register("extremum", 5, make_extremum, extremum_value, extremum_text)
register("unary", 5, make_unary, unary_value, unary_text)
register("function", 6, make_function, function_value, function_text)
register("cast", 10, make_cast, cast_value, cast_text)
register("bitcast", 2, make_bitcast, bitcast_value, lambda n, a, r: f"{a[0]}.to({n.attrs['kind'].text}, bitcast=True)")
register("where", 8, make_where, where_value, where_text)
register("clamp", 1, make_clamp, clamp_value, clamp_text)
register("fma", 3, make_fma, fma_value, call_text("kl.fma"))
register("umulhi", 1, make_umulhi, umulhi_value, call_text("kl.umulhi"))
register("mapped", 2, make_mapped, mapped_value, mapped_text)

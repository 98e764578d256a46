"""Arithmetic, comparison and logic of one thread."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .operation import Run, operation
from .ptx import Instruction, Unsupported

FLOATS = ("f16", "f32", "f64", "bf16", "f16x2", "bf16x2", "f32x2")
SMALLEST_NORMAL = np.float32(2.0**-126)
NO_NUMBER = np.uint64(2**63 - 1).view(np.float64)


def bits_of(kind: str) -> int:
    return 1 if kind == "pred" else int("".join(c for c in kind.removesuffix("x2").lstrip("b") if c.isdigit()))


def flushed(x: np.ndarray) -> np.ndarray:
    """`.ftz`: subnormal float32 numbers are zeros of their sign."""
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def elementwise(instruction: Instruction, function: Callable[..., Any]) -> Run:
    """Applies `function` to the operands in the instruction's type, with `.ftz`, `.sat` and `.relu`."""
    kind, (to, *sources) = instruction.type, instruction.operands
    flush = "ftz" in instruction.modifiers
    saturate = "sat" in instruction.modifiers
    relu = "relu" in instruction.modifiers
    if saturate and kind not in FLOATS:
        if kind != "s32":
            raise Unsupported(f"{instruction}: saturation of {kind}")

        def saturated(machine: Any, lanes: Any) -> None:
            values = (machine.read(kind, source, lanes).astype(np.int64) for source in sources)
            machine.write(kind, to, lanes, np.clip(function(*values), -(2**31), 2**31 - 1))

        return saturated

    def run(machine: Any, lanes: Any) -> None:
        values = [machine.read(kind, source, lanes) for source in sources]
        result = function(*map(flushed, values)) if flush else function(*values)
        if flush:
            result = flushed(np.asarray(result, np.float32))
        if saturate:
            result = np.where(np.isnan(result), 0, np.clip(result, 0, 1))
        if relu:
            result = np.maximum(result, 0)
        machine.write(kind, to, lanes, result)

    return run


ROUNDINGS = "rn ftz sat approx full relu"


@operation("add", ROUNDINGS)
def _add(ins: Instruction) -> Run:
    return elementwise(ins, np.add)


@operation("sub", ROUNDINGS)
def _sub(ins: Instruction) -> Run:
    return elementwise(ins, np.subtract)


def _wide(kind: str) -> str:
    return f"{kind[0]}{2 * bits_of(kind)}"


@operation("mul mad", ROUNDINGS + " lo hi wide")
def _mul(ins: Instruction) -> Run:
    kind, (to, x, y, *z) = ins.type, ins.operands
    if "wide" in ins.modifiers:
        wide = _wide(kind)

        def run_wide(machine: Any, lanes: Any) -> None:
            into = machine.views[wide].dtype
            product = machine.read(kind, x, lanes).astype(into) * machine.read(kind, y, lanes).astype(into)
            machine.write(wide, to, lanes, product + machine.read(wide, z[0], lanes) if z else product)

        return run_wide
    if "hi" in ins.modifiers:
        width = bits_of(kind)

        def run_high(machine: Any, lanes: Any) -> None:
            values = zip(machine.read(kind, x, lanes).tolist(), machine.read(kind, y, lanes).tolist(), strict=True)
            high = [(a * b >> width) & ((1 << width) - 1) for a, b in values]
            result = np.array(high, np.uint64)
            if z:
                result = result + machine.read(f"u{width}", z[0], lanes).astype(np.uint64)
            machine.write(f"u{width}", to, lanes, result.astype(f"u{width // 8}"))

        return run_high
    return elementwise(ins, (lambda a, b, c: a * b + c) if z else np.multiply)


def _exact_fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """float64 has no wider type: exact fractions, rounded once."""
    result = np.asarray(x * y + z)
    for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)):
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        if exact:
            try:
                result[i] = float(exact)
            except OverflowError:
                result[i] = math.inf if exact > 0 else -math.inf
    return result


def _fma_by_double(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The product is exact in float64; the sum is rounded to odd there, so that the second rounding is the only one.
    What is no number has all bits set but its sign, as PTX has it."""
    product, added = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + added
    back = total - product
    error = (product - (total - back)) + (added - back)
    even = (total.view(np.int64) & 1) == 0
    odd = np.where(error > 0, np.inf, -np.inf)
    total = np.where((error != 0) & even & np.isfinite(error), np.nextafter(total, odd), total)
    return np.where(np.isnan(total), NO_NUMBER, total)


@operation("fma", ROUNDINGS)
def _fma(ins: Instruction) -> Run:
    return elementwise(ins, _exact_fma if ins.type == "f64" else _fma_by_double)


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rounds towards zero. Division by zero gives all ones, as the machine does."""
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    quotient = x // safe
    return np.where(y == 0, -1, quotient + ((quotient < 0) & (quotient * safe != x))).astype(x.dtype)


@operation("div", ROUNDINGS)
def _div(ins: Instruction) -> Run:
    return elementwise(ins, np.divide if ins.type in FLOATS else _quotient)


@operation("rem")
def _rem(ins: Instruction) -> Run:
    return elementwise(ins, lambda x, y: np.where(y == 0, x, x - _quotient(x, y) * y))


def _of_numbers(two: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """With one NaN, returns the other operand. numpy's fmin and fmax keep a signalling NaN."""
    return lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, two(x, y)))


@operation("min max", "NaN ftz relu")
def _extremum(ins: Instruction) -> Run:
    least = ins.name == "min"
    two: Callable[..., np.ndarray] = np.minimum if least else np.maximum
    if "NaN" not in ins.modifiers:
        two = _of_numbers(two)

    def signed(x: np.ndarray, y: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        # -0 is less than +0 here; numpy takes whichever comes first.
        both = (x == 0) & (y == 0)
        chosen = np.signbit(x) | np.signbit(y) if least else np.signbit(x) & np.signbit(y)
        result = np.where(both, np.where(chosen, -0.0, 0.0).astype(x.dtype), two(x, y))
        return signed(result, *rest) if rest else result

    return elementwise(ins, signed)


@operation("neg", "ftz")
def _neg(ins: Instruction) -> Run:
    return elementwise(ins, np.negative)


@operation("abs", "ftz")
def _abs(ins: Instruction) -> Run:
    return elementwise(ins, np.abs)


ONE_OPERAND: dict[str, Callable[[np.ndarray], Any]] = {
    "sqrt": np.sqrt, "rcp": np.reciprocal, "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "rsqrt": lambda x: 1 / np.sqrt(x.astype(np.float64)),
}  # fmt: skip


@operation(" ".join(ONE_OPERAND), ROUNDINGS)
def _function(ins: Instruction) -> Run:
    return elementwise(ins, ONE_OPERAND[ins.name])


@operation("copysign")
def _copysign(ins: Instruction) -> Run:
    return elementwise(ins, lambda x, y: np.copysign(y, x))


@operation("not")
def _not(ins: Instruction) -> Run:
    return elementwise(ins, np.invert)


@operation("and or xor")
def _logic(ins: Instruction) -> Run:
    return elementwise(ins, {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[ins.name])


@operation("shl shr")
def _shift(ins: Instruction) -> Run:
    kind, (to, value, distance), width = ins.type, ins.operands, bits_of(ins.type)

    def run(machine: Any, lanes: Any) -> None:
        by = machine.read("u32", distance, lanes)
        x = machine.read(kind, value, lanes)
        near = np.minimum(by, width - 1).astype(x.dtype)
        shifted = x << near if ins.name == "shl" else x >> near
        machine.write(kind, to, lanes, shifted if kind[0] == "s" else np.where(by >= width, 0, shifted))

    return run


@operation("shf", "l r wrap clamp")
def _funnel(ins: Instruction) -> Run:
    to, low, high, distance = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        both = machine.read("u32", low, lanes).astype(np.uint64)
        both = both | machine.read("u32", high, lanes).astype(np.uint64) << np.uint64(32)
        by = machine.read("u32", distance, lanes).astype(np.uint64)
        by = by & np.uint64(31) if "wrap" in ins.modifiers else np.minimum(by, np.uint64(32))
        machine.write("b32", to, lanes, both >> by if "r" in ins.modifiers else (both << by) >> np.uint64(32))

    return run


@operation("bfe")
def _extract(ins: Instruction) -> Run:
    kind, (to, value, position, length), width = ins.type, ins.operands, bits_of(ins.type)

    def one(x: int, at: int, count: int) -> int:
        at, count = at & 255, min(count & 255, width)
        bits = (x >> at) & ((1 << count) - 1)
        if kind[0] == "s" and count:
            sign = x >> min(at + count - 1, width - 1) & 1
            filled = count if at + count <= width else max(width - at, 0)
            bits |= (((1 << width) - 1) >> filled << filled) * sign
        return bits & ((1 << width) - 1)

    return _by_lane(to, f"u{width}", [(f"u{width}", value), ("u32", position), ("u32", length)], one)


@operation("bfi")
def _insert(ins: Instruction) -> Run:
    to, source, base, position, length = ins.operands
    width = bits_of(ins.type)

    def one(x: int, y: int, at: int, count: int) -> int:
        mask = ((1 << (count & 255)) - 1) << (at & 255)
        return ((y & ~mask) | ((x << (at & 255)) & mask)) & ((1 << width) - 1)

    return _by_lane(
        to, f"u{width}", [(f"u{width}", source), (f"u{width}", base), ("u32", position), ("u32", length)], one
    )


def _by_lane(to: int, kind: str, sources: list[tuple[str, int]], function: Callable[..., int]) -> Run:
    def run(machine: Any, lanes: Any) -> None:
        columns = [machine.read(k, row, lanes).tolist() for k, row in sources]
        machine.write(kind, to, lanes, np.array([function(*row) for row in zip(*columns, strict=True)],
                                                machine.views[kind].dtype))  # fmt: skip

    return run


@operation("popc clz brev")
def _count(ins: Instruction) -> Run:
    width = bits_of(ins.type)
    to, source = ins.operands
    function: Callable[[int], int] = {
        "popc": lambda x: bin(x).count("1"),
        "clz": lambda x: width - x.bit_length(),
        "brev": lambda x: int(format(x, f"0{width}b")[::-1], 2),
    }[ins.name]
    return _by_lane(to, f"u{width}", [(f"u{width}", source)], function)


NIBBLES = np.arange(0, 16, 4, dtype=np.uint32)


@operation("prmt")
def _permute(ins: Instruction) -> Run:
    to, low, high, selector = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        source = np.stack([machine.read("u32", row, lanes) for row in (low, high)], axis=1).view(np.uint8)
        picks = machine.read("u32", selector, lanes)[:, None] >> NIBBLES
        chosen = source[np.arange(len(source))[:, None], picks & 7]
        signs = (chosen >> 7) * np.uint8(255)
        machine.write("u32", to, lanes, np.where(picks & 8, signs, chosen).view(np.uint32)[:, 0])

    return run


@operation("lop3")
def _lookup(ins: Instruction) -> Run:
    to, x, y, z, table = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        a, b, c = (machine.read("u32", row, lanes) for row in (x, y, z))
        chosen = int(machine.read("u32", table, lanes)[0])
        result = np.zeros_like(a)
        for i in range(8):
            if chosen >> i & 1:
                result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        machine.write("u32", to, lanes, result)

    return run


@operation("testp", "finite infinite notanumber")
def _test(ins: Instruction) -> Run:
    to, source = ins.operands
    ask = {"finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan}[ins.modifiers[0]]
    return lambda machine, lanes: machine.write("pred", to, lanes, ask(machine.read(ins.type, source, lanes)))


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
           "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
           "hs": np.greater_equal}  # fmt: skip


@operation("setp", " ".join(COMPARE) + " equ neu ltu leu gtu geu num nan and or xor ftz not_last")
def _compare(ins: Instruction) -> Run:
    word, kind = ins.modifiers[0], ins.type
    to, x, y, *last = ins.operands
    join = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "": None}[ins.one_of("and", "or", "xor")]
    if isinstance(to, tuple) and not kind.endswith("x2"):
        raise Unsupported(f"{ins}: two results of one comparison")
    unordered = word.endswith("u")  # or a NaN
    compare = COMPARE.get(word.removesuffix("u"))

    def run(machine: Any, lanes: Any) -> None:
        a, b = machine.read(kind, x, lanes), machine.read(kind, y, lanes)
        nan = np.isnan(a) | np.isnan(b)
        if compare is None:
            result = nan if word == "nan" else ~nan
        else:
            result = compare(a, b) | nan if unordered else compare(a, b) & ~nan
        if join is not None:
            other = machine.read("pred", last[0], lanes) != ("not_last" in ins.modifiers)
            result = join(result, other)
        if kind.endswith("x2"):
            machine.write("pred", to[0], lanes, result[:, 0])
            machine.write("pred", to[1], lanes, result[:, 1])
        else:
            machine.write("pred", to, lanes, result)

    return run


@operation("selp")
def _select(ins: Instruction) -> Run:
    kind, (to, yes, no, choice) = ins.type, ins.operands

    def run(machine: Any, lanes: Any) -> None:
        view = machine.views[kind]
        view[to, lanes] = np.where(machine.views["pred"][choice, lanes], view[yes, lanes], view[no, lanes])

    return run

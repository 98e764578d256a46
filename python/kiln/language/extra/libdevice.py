"""The names of NVIDIA's libdevice: `kl.extra.libdevice.tanh`.

A function that the math dialect has becomes its op, and a simple one becomes a short expression. The rest become a
`tile.extern_call` of the `__nv_` function: on NVIDIA targets of CUDA's device library (`KILN_LIBDEVICE`), on the CPU
one of the runtime (runtime/device/HostLibrary.cpp), called for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import types as _types
from ..builtin import builtin
from ..semantic import arithmetic, elementwise
from ..semantic.build import constant, emit, error, shaped
from ..semantic.cast import bitcast, cast
from ..semantic.operand import to_tensor
from ..semantic.promotion import broadcast_pair
from ..types import float16, float32, float64, int1, int32, int64, uint32, uint64
from ..values import tensor

_LIBRARY = "libdevice"


def _where(name: str) -> str:
    return f"libdevice.{name}"


def _floats(name: str, *operands: Any) -> list[tensor]:
    """Brings operands to one type, which must be fp32 or fp64."""
    tensors = elementwise.same_type(operands, _where(name))
    elementwise.wide_float(tensors[0], _where(name))
    return tensors


def _define(name: str, function: Callable[..., Any], meaning: str, example: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning}\n\n    >>> {example}\n    "
    globals()[name] = builtin(function)


# --- one op of the math dialect ---------------------------------------------------------------------------------------

_UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "cbrt": "cbrt", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf", "erfc": "erfc", "exp": "exp",
    "exp2": "exp2", "expm1": "expm1", "fabs": "absf", "floor": "floor", "log": "log", "log10": "log10",
    "log1p": "log1p", "log2": "log2", "nearbyint": "roundeven", "rint": "roundeven", "round": "round",
    "rsqrt": "rsqrt", "rsqrt_rn": "rsqrt", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "sqrt_rn": "sqrt",
    "tan": "tan", "tanh": "tanh", "trunc": "trunc",
    # The fast forms trade accuracy for speed on a GPU; elsewhere they are the functions themselves.
    "fast_cosf": "cos", "fast_expf": "exp", "fast_log10f": "log10", "fast_log2f": "log2", "fast_logf": "log",
    "fast_sinf": "sin", "fast_tanf": "tan", "fast_tanhf": "tanh",
}  # fmt: skip

_BINARY = {"atan2": "math.atan2", "copysign": "math.copysign", "pow": "math.powf", "fmod": "arith.remf",
           "fast_powf": "math.powf"}  # fmt: skip


def _unary(name: str, op: str) -> None:
    def function(arg0: Any) -> tensor:
        (x,) = _floats(name, arg0)
        return emit(f"math.{op}", [x], x.type)

    _define(name, function, f"`{name}` of fp32 and fp64.", f"y = libdevice.{name}(x)")


def _binary(name: str, op: str) -> None:
    def function(arg0: Any, arg1: Any) -> tensor:
        if name == "pow" and to_tensor(arg1).type.scalar.is_int():
            arg1 = cast(arg1, to_tensor(arg0).type.scalar)
        x, y = _floats(name, arg0, arg1)
        return emit(op, [x, y], x.type)

    _define(name, function, f"`{name}` of fp32 and fp64.", f"z = libdevice.{name}(x, y)")


for _name, _op in _UNARY.items():
    _unary(_name, _op)
for _name, _op in _BINARY.items():
    _binary(_name, _op)


# --- a short expression -----------------------------------------------------------------------------------------------


@builtin
def abs(arg0: Any) -> tensor:
    """Absolute value of any number type.

    >>> y = libdevice.abs(x)
    """
    return elementwise.absolute(arg0)


@builtin
def fma(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """`x * y + z`, rounded once.

    >>> y = libdevice.fma(a, x, b)
    """
    x, y, z = _floats("fma", arg0, arg1, arg2)
    return emit("math.fma", [x, y, z], x.type)


@builtin
def div_rn(arg0: Any, arg1: Any) -> tensor:
    """Quotient, rounded to nearest even.

    >>> z = libdevice.div_rn(x, y)
    """
    x, y = _floats("div_rn", arg0, arg1)
    return arithmetic.divide_float(x, y, exact=True)


@builtin
def fast_dividef(arg0: Any, arg1: Any) -> tensor:
    """Quotient of fp32; correctly rounded except on GPUs.

    >>> z = libdevice.fast_dividef(x, y)
    """
    x, y = _floats("fast_dividef", arg0, arg1)
    return arithmetic.divide_float(x, y)


@builtin
def rcp_rn(arg0: Any) -> tensor:
    """One over x, rounded to nearest even.

    >>> y = libdevice.rcp_rn(x)
    """
    (x,) = _floats("rcp_rn", arg0)
    return 1.0 / x


@builtin
def exp10(arg0: Any) -> tensor:
    """10 to the x.

    >>> y = libdevice.exp10(x)
    """
    (x,) = _floats("exp10", arg0)
    return emit("math.powf", [constant(x.type, 10), x], x.type)


@builtin
def fast_exp10f(arg0: Any) -> tensor:
    """10 to the x, fp32.

    >>> y = libdevice.fast_exp10f(x)
    """
    return exp10(arg0)


@builtin
def fdim(arg0: Any, arg1: Any) -> tensor:
    """x - y where that is positive, else 0; NaN if either is NaN.

    >>> z = libdevice.fdim(x, y)
    """
    x, y = _floats("fdim", arg0, arg1)
    return arithmetic.where(x <= y, 0.0, x - y)


@builtin
def saturatef(arg0: Any) -> tensor:
    """Clamps x to [0, 1]; NaN becomes 0.

    >>> y = libdevice.saturatef(x)
    """
    (x,) = _floats("saturatef", arg0)
    return arithmetic.extremum("min", arithmetic.extremum("max", x, 0.0), 1.0)


@builtin
def hypot(arg0: Any, arg1: Any) -> tensor:
    """Square root of x * x + y * y, without intermediate overflow.

    >>> z = libdevice.hypot(x, y)
    """
    x, y = (emit("math.absf", [v], v.type) for v in _floats("hypot", arg0, arg1))
    big, small = arithmetic.extremum("max", x, y), arithmetic.extremum("min", x, y)
    ratio = arithmetic.where(big == 0, 0.0, arithmetic.divide_float(small, big))
    length = big * elementwise.math_op("sqrt", "libdevice.hypot", elementwise.fused_multiply_add(ratio, ratio, 1.0))
    infinite = (x == float("inf")) | (y == float("inf"))
    invalid = (x != x) | (y != y)
    return arithmetic.where(infinite, float("inf"), arithmetic.where(invalid, float("nan"), length))


@builtin
def rcbrt(arg0: Any) -> tensor:
    """One over the cube root.

    >>> y = libdevice.rcbrt(x)
    """
    (x,) = _floats("rcbrt", arg0)
    return 1.0 / emit("math.cbrt", [x], x.type)


@builtin
def fmin(arg0: Any, arg1: Any) -> tensor:
    """The lesser of two numbers; if one is NaN, the other.

    >>> z = libdevice.fmin(x, y)
    """
    return arithmetic.extremum("min", *_floats("fmin", arg0, arg1))


@builtin
def fmax(arg0: Any, arg1: Any) -> tensor:
    """The greater of two numbers; if one is NaN, the other.

    >>> z = libdevice.fmax(x, y)
    """
    return arithmetic.extremum("max", *_floats("fmax", arg0, arg1))


def _classify(name: str, op: str) -> None:
    def function(arg0: Any) -> tensor:
        (x,) = _floats(name, arg0)
        return cast(emit(f"math.{op}", [x], shaped(x, int1)), int32)

    _define(name, function, f"1 where {op} holds, else 0: int32.", f"flag = libdevice.{name}(x)")


for _name, _op in (("isnan", "isnan"), ("isinf", "isinf"), ("finitef", "isfinite"), ("isfinited", "isfinite")):
    _classify(_name, _op)


def _bits(x: tensor) -> tensor:
    return bitcast(x, _types.get_int_dtype(x.type.scalar.primitive_bitwidth, False))


@builtin
def signbit(arg0: Any) -> tensor:
    """1 where the sign bit is set (of -0.0 and NaN too), else 0: int32.

    >>> negative = libdevice.signbit(x)
    """
    (x,) = _floats("signbit", arg0)
    return cast(_bits(x) >> (x.type.scalar.primitive_bitwidth - 1), int32)


@builtin
def ldexp(arg0: Any, arg1: Any) -> tensor:
    """x times 2 to the n, rounded once.

    >>> y = libdevice.ldexp(x, n)
    """
    (x,) = _floats("ldexp", arg0)
    element = x.type.scalar
    low, bias, mantissa = (-1022, 1023, 52) if element == float64 else (-126, 127, 23)
    integer = int64 if element == float64 else int32
    # Three factors span the range from the largest number to the smallest; all but the last are exact.
    span = bias - low + mantissa + bias
    n = arithmetic.extremum("min", arithmetic.extremum("max", cast(arg1, int32), -span), span)
    for _ in range(2):
        part = arithmetic.extremum("min", arithmetic.extremum("max", n, low + mantissa + 2), bias)
        x = x * bitcast((cast(part, integer) + bias) << mantissa, element)
        n = n - part
    part = arithmetic.extremum("min", arithmetic.extremum("max", n, low), bias)
    return x * bitcast((cast(part, integer) + bias) << mantissa, element)


@builtin
def scalbn(arg0: Any, arg1: Any) -> tensor:
    """Another name of `ldexp`.

    >>> y = libdevice.scalbn(x, n)
    """
    return ldexp(arg0, arg1)


# --- bits and integers ------------------------------------------------------------------------------------------------


def _integers(name: str, *operands: Any) -> list[tensor]:
    tensors = elementwise.same_type(operands, _where(name))
    element = tensors[0].type.scalar
    if not element.is_int() or element.int_bitwidth not in (32, 64):
        raise error(f"expected integers of 32 or 64 bits in {_where(name)}, got {element}")
    return tensors


def _words(name: str, *operands: Any) -> list[tensor]:
    tensors = _integers(name, *operands)
    if tensors[0].type.scalar.int_bitwidth != 32:
        raise error(f"expected integers of 32 bits in {_where(name)}, got {tensors[0].type.scalar}")
    return tensors


@builtin
def popc(arg0: Any) -> tensor:
    """The number of set bits: int32.

    >>> n = libdevice.popc(x)
    """
    (x,) = _integers("popc", arg0)
    return cast(emit("math.ctpop", [x], x.type), int32)


@builtin
def clz(arg0: Any) -> tensor:
    """The number of leading zero bits: int32; the width, if no bit is set.

    >>> n = libdevice.clz(x)
    """
    (x,) = _integers("clz", arg0)
    return cast(emit("math.ctlz", [x], x.type), int32)


@builtin
def ffs(arg0: Any) -> tensor:
    """The position of the lowest set bit, counted from 1: int32; 0 if no bit is set.

    >>> n = libdevice.ffs(x)
    """
    (x,) = _integers("ffs", arg0)
    return arithmetic.where(x == 0, 0, cast(emit("math.cttz", [x], x.type), int32) + 1)


@builtin
def brev(arg0: Any) -> tensor:
    """The bits in reverse order.

    >>> y = libdevice.brev(x)
    """
    (x,) = _integers("brev", arg0)
    element = x.type.scalar
    bits = element.int_bitwidth
    y = bitcast(x, _types.get_int_dtype(bits, False))
    step = bits // 2
    while step:
        # The mask alternates `step` ones and `step` zeros.
        mask = ((1 << bits) - 1) // ((1 << step) + 1)
        y = ((y >> step) & mask) | ((y & mask) << step)
        step //= 2
    return bitcast(y, element)


@builtin
def mulhi(arg0: Any, arg1: Any) -> tensor:
    """The upper half of the product, signed or unsigned as the operands are.

    >>> z = libdevice.mulhi(x, y)
    """
    from ..semantic.build import emit_many

    x, y = _integers("mulhi", arg0, arg1)
    signed = x.type.scalar.is_int_signed()
    return emit_many(f"arith.mul{'s' if signed else 'u'}i_extended", [x, y], [x.type, x.type])[1]


@builtin
def mul24(arg0: Any, arg1: Any) -> tensor:
    """The lower 32 bits of the product of the lower 24 bits.

    >>> z = libdevice.mul24(x, y)
    """
    x, y = _words("mul24", arg0, arg1)
    return ((x << 8) >> 8) * ((y << 8) >> 8)


@builtin
def sad(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """|x - y| + z.

    >>> z = libdevice.sad(x, y, z)
    """
    x, y = _words("sad", arg0, arg1)
    distance = arithmetic.where(arithmetic.compare(">", x, y), x - y, y - x)
    z = to_tensor(arg2)
    return bitcast(distance, z.type) + z


@builtin
def hadd(arg0: Any, arg1: Any) -> tensor:
    """(x + y) / 2 without overflow, rounded down.

    >>> z = libdevice.hadd(x, y)
    """
    x, y = _integers("hadd", arg0, arg1)
    return (x & y) + ((x ^ y) >> 1)


@builtin
def rhadd(arg0: Any, arg1: Any) -> tensor:
    """(x + y + 1) / 2 without overflow, rounded down.

    >>> z = libdevice.rhadd(x, y)
    """
    x, y = _integers("rhadd", arg0, arg1)
    return (x | y) - ((x ^ y) >> 1)


@builtin
def byte_perm(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Selects four of the eight bytes of y (upper) and x (lower): the low three bits of each of the four lowest hex
    digits of s select one.

    >>> z = libdevice.byte_perm(x, y, s)
    """
    x, y, s = _words("byte_perm", arg0, arg1, arg2)
    result_type = x.type
    x, y, s = (cast(bitcast(v, uint32), uint64) for v in (x, y, s))
    both = x | (y << 32)
    result = None
    for place in range(4):
        byte = ((both >> (((s >> 4 * place) & 7) << 3)) & 255) << 8 * place
        result = byte if result is None else result | byte
    return bitcast(cast(result, uint32), result_type)


def _integer_extremum(name: str, which: str) -> None:
    def function(arg0: Any, arg1: Any) -> tensor:
        return arithmetic.extremum(which, *_integers(name, arg0, arg1))

    _define(name, function, f"The {'greater' if which == 'max' else 'lesser'} of two integers.",
            f"z = libdevice.{name}(x, y)")  # fmt: skip


for _name in ("max", "umax", "llmax", "ullmax"):
    _integer_extremum(_name, "max")
for _name in ("min", "umin", "llmin", "ullmin"):
    _integer_extremum(_name, "min")


# --- conversions ------------------------------------------------------------------------------------------------------

_NUMBERS = {
    "double": float64, "float": float32, "half": float16, "int": int32, "uint": uint32, "ll": int64, "ull": uint64,
}  # fmt: skip


def _convert(source: str, target: str, mode: str) -> None:
    """float2int_rn and the like. Conversions to integers use the named rounding mode, to floats round to nearest."""
    rounding = {"rn": "roundeven", "rd": "floor", "ru": "ceil", "rz": None}[mode]
    name = f"{source}2{target}_{mode}"

    def function(arg0: Any) -> tensor:
        x = to_tensor(arg0)
        if x.type.scalar != _NUMBERS[source]:
            raise error(f"expected {_NUMBERS[source]} in {_where(name)}, got {x.type.scalar}")
        if _NUMBERS[source].is_floating() and rounding is not None and _NUMBERS[target].is_int():
            x = emit(f"math.{rounding}", [x], x.type)
        return cast(x, _NUMBERS[target])

    _define(name, function, f"{_NUMBERS[source]} to {_NUMBERS[target]}.", f"y = libdevice.{name}(x)")


for _source in ("float", "double"):
    for _target in ("int", "uint", "ll", "ull"):
        for _mode in ("rn", "rd", "ru", "rz"):
            _convert(_source, _target, _mode)
for _source in ("int", "uint", "ll", "ull"):
    for _target in ("float", "double"):
        _convert(_source, _target, "rn")
_convert("double", "float", "rn")
_convert("float", "half", "rn")


def _convert_directed(source: str, target: str, mode: str) -> None:
    """A conversion to float with directed rounding, which only the library has."""
    name = f"{source}2{target}_{mode}"

    def function(arg0: Any) -> tensor:
        x = to_tensor(arg0)
        if x.type.scalar != _NUMBERS[source]:
            raise error(f"expected {_NUMBERS[source]} in {_where(name)}, got {x.type.scalar}")
        return elementwise.library_call(f"__nv_{name}", _LIBRARY, [x], _NUMBERS[target])

    _define(name, function, f"{_NUMBERS[source]} to {_NUMBERS[target]}.", f"y = libdevice.{name}(x)")


for _mode in ("rd", "ru", "rz"):
    _convert_directed("double", "float", _mode)
    for _source in ("int", "uint", "ll", "ull"):
        _convert_directed(_source, "float", _mode)
    for _source in ("ll", "ull"):
        _convert_directed(_source, "double", _mode)


def _reinterpret(name: str, source: Any, target: Any) -> None:
    def function(arg0: Any) -> tensor:
        x = to_tensor(arg0)
        if x.type.scalar != source:
            raise error(f"expected {source} in {_where(name)}, got {x.type.scalar}")
        return bitcast(x, target)

    _define(name, function, f"The bits of {source} as {target}.", f"y = libdevice.{name}(x)")


_reinterpret("float_as_int", float32, int32)
_reinterpret("float_as_uint", float32, uint32)
_reinterpret("int_as_float", int32, float32)
_reinterpret("uint_as_float", uint32, float32)
_reinterpret("double_as_longlong", float64, int64)
_reinterpret("longlong_as_double", int64, float64)


@builtin
def hiloint2double(arg0: Any, arg1: Any) -> tensor:
    """An fp64 made of its upper and lower 32 bits.

    >>> y = libdevice.hiloint2double(high, low)
    """
    high, low = _words("hiloint2double", arg0, arg1)
    bits = (cast(bitcast(high, uint32), uint64) << 32) | cast(bitcast(low, uint32), uint64)
    return bitcast(bits, float64)


@builtin
def double2hiint(arg0: Any) -> tensor:
    """The upper 32 bits of fp64: int32.

    >>> high = libdevice.double2hiint(x)
    """
    return bitcast(cast(bitcast(cast(arg0, float64), uint64) >> 32, uint32), int32)


@builtin
def double2loint(arg0: Any) -> tensor:
    """The lower 32 bits of fp64: int32.

    >>> low = libdevice.double2loint(x)
    """
    return bitcast(cast(bitcast(cast(arg0, float64), uint64), uint32), int32)


@builtin
def half2float(arg0: Any) -> tensor:
    """fp16 to fp32.

    >>> y = libdevice.half2float(x)
    """
    return cast(arg0, float32)


def _rounded(name: str, op: str) -> None:
    def function(arg0: Any) -> tensor:
        (x,) = _floats(name, arg0)
        return cast(emit(f"math.{op}", [x], x.type), int64)

    _define(name, function, "The nearest whole number: int64.", f"n = libdevice.{name}(x)")


_rounded("llrint", "roundeven")
_rounded("llround", "round")


# --- calls into the library -------------------------------------------------------------------------------------------

# The number of float operands; the fp32 form has the suffix f, the fp64 form none.
_EXTERN = {
    "cospi": 1, "cyl_bessel_i0": 1, "cyl_bessel_i1": 1, "erfcinv": 1, "erfcx": 1, "erfinv": 1, "j0": 1, "j1": 1,
    "lgamma": 1, "logb": 1, "nextafter": 2, "norm3d": 3, "norm4d": 4, "normcdf": 1, "normcdfinv": 1, "remainder": 2,
    "rhypot": 2, "rnorm3d": 3, "rnorm4d": 4, "sinpi": 1, "tgamma": 1, "y0": 1, "y1": 1,
}  # fmt: skip

# Arithmetic with directed rounding: __nv_fadd_rd for fp32, __nv_dadd_rd for fp64.
_DIRECTED = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1, "sqrt": 1}


def _extern(name: str, operands: int, symbols: tuple[str, str]) -> None:
    def function(*args: Any) -> tensor:
        if len(args) != operands:
            raise error(f"expected {operands} operands of {_where(name)}, got {len(args)}")
        tensors = _floats(name, *args)
        element = tensors[0].type.scalar
        return elementwise.library_call(symbols[element == float64], _LIBRARY, tensors, element)

    letters = ", ".join("xyzw"[:operands])
    _define(
        name,
        function,
        f"`{name}` of fp32 and fp64.",
        f"r = libdevice.{name}({letters})",
    )


for _name, _count in _EXTERN.items():
    _extern(_name, _count, (f"__nv_{_name}f", f"__nv_{_name}"))
for _name, _count in _DIRECTED.items():
    for _mode in ("rd", "rn", "ru", "rz"):
        if f"{_name}_{_mode}" not in globals():
            # For fma only the fp32 name has a letter, as a suffix: __nv_fmaf_rd, __nv_fma_rd.
            _pair = (
                (f"__nv_fmaf_{_mode}", f"__nv_fma_{_mode}")
                if _name == "fma"
                else (f"__nv_f{_name}_{_mode}", f"__nv_d{_name}_{_mode}")
            )
            _extern(f"{_name}_{_mode}", _count, _pair)


def _bessel(name: str) -> None:
    def function(arg0: Any, arg1: Any) -> tensor:
        order, x = to_tensor(arg0), to_tensor(arg1)
        elementwise.wide_float(x, _where(name))
        if order.type.scalar != int32:
            raise error(f"expected int32 as the order of {_where(name)}, got {order.type.scalar}")
        order, x = broadcast_pair(order, x, _where(name))
        element = x.type.scalar
        symbol = f"__nv_{name}" if element == float64 else f"__nv_{name}f"
        return elementwise.library_call(symbol, _LIBRARY, [order, x], element)

    _define(name, function, f"`{name}` of an int32 order and of fp32 and fp64.", f"r = libdevice.{name}(n, x)")


_bessel("jn")
_bessel("yn")


@builtin
def rcp64h(arg0: Any) -> tensor:
    """The upper half of one over x, fp64; the lower half is 0.

    >>> y = libdevice.rcp64h(x)
    """
    x = to_tensor(arg0)
    if x.type.scalar != float64:
        raise error(f"expected fp64 in {_where('rcp64h')}, got {x.type.scalar}")
    return elementwise.library_call("__nv_rcp64h", _LIBRARY, [x], float64)


@builtin
def ilogb(arg0: Any) -> tensor:
    """The exponent of x as int32; the least int32 for 0 and NaN, the greatest for an infinity.

    >>> e = libdevice.ilogb(x)
    """
    (x,) = _floats("ilogb", arg0)
    symbol = "__nv_ilogb" if x.type.scalar == float64 else "__nv_ilogbf"
    return elementwise.library_call(symbol, _LIBRARY, [x], int32)


__all__ = [name for name, value in list(globals().items()) if getattr(value, "__kiln_builtin__", False) is True]

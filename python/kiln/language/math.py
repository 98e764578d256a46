"""Functions of each element (`kl.exp`, also `kl.math.exp`): exponentials, roots, trigonometry, rounding, extrema.

Most are defined on fp32 and fp64 only, as in Triton; their accuracy is stated where the target expands them.
"""

from __future__ import annotations

from typing import Any

from .builtin import builtin
from .semantic import arithmetic, elementwise
from .semantic.build import APPROXIMATE
from .types import PropagateNan
from .values import tensor, unwrap


@builtin
def exp(x: Any) -> tensor:
    """e to the x. fp32, fp64.

    >>> y = kl.exp(x - kl.max(x, 0))
    """
    return elementwise.math_op("exp", "kl.exp", x)


@builtin
def exp2(x: Any) -> tensor:
    """2 to the x. fp32, fp64.

    >>> y = kl.exp2(x * 1.4426950408889634)
    """
    return elementwise.math_op("exp2", "kl.exp2", x)


@builtin
def log(x: Any) -> tensor:
    """Natural logarithm. fp32, fp64.

    >>> y = kl.log(x)
    """
    return elementwise.math_op("log", "kl.log", x)


@builtin
def log2(x: Any) -> tensor:
    """Logarithm to base 2. fp32, fp64.

    >>> y = kl.log2(x)
    """
    return elementwise.math_op("log2", "kl.log2", x)


@builtin
def sqrt(x: Any) -> tensor:
    """Square root; in fp32 within 2 ulp on GPUs (see sqrt_rn). fp32, fp64.

    >>> y = kl.sqrt(x)
    """
    return elementwise.math_op("sqrt", "kl.sqrt", x, attrs={"fastmath": APPROXIMATE})


@builtin
def sqrt_rn(x: Any) -> tensor:
    """Square root, rounded to nearest even on every target. fp32, fp64.

    >>> y = kl.sqrt_rn(x)
    """
    return elementwise.math_op("sqrt", "kl.sqrt_rn", x)


@builtin
def rsqrt(x: Any) -> tensor:
    """One over the square root. fp32, fp64.

    >>> scale = kl.rsqrt(mean_of_squares + eps)
    """
    return elementwise.math_op("rsqrt", "kl.rsqrt", x)


@builtin
def sin(x: Any) -> tensor:
    """Sine of an angle in radians. fp32, fp64.

    >>> y = kl.sin(x)
    """
    return elementwise.math_op("sin", "kl.sin", x)


@builtin
def cos(x: Any) -> tensor:
    """Cosine of an angle in radians. fp32, fp64.

    >>> y = kl.cos(x)
    """
    return elementwise.math_op("cos", "kl.cos", x)


@builtin
def erf(x: Any) -> tensor:
    """The error function. fp32, fp64.

    >>> gelu = 0.5 * x * (1 + kl.erf(x * 0.7071067811865476))
    """
    return elementwise.math_op("erf", "kl.erf", x)


@builtin
def floor(x: Any) -> tensor:
    """Rounds down to an integer. fp32, fp64.

    >>> y = kl.floor(x)
    """
    return elementwise.math_op("floor", "kl.floor", x)


@builtin
def ceil(x: Any) -> tensor:
    """Rounds up to an integer. fp32, fp64.

    >>> y = kl.ceil(x)
    """
    return elementwise.math_op("ceil", "kl.ceil", x)


@builtin
def abs(x: Any) -> tensor:
    """Absolute value, for any number type.

    >>> y = kl.abs(x)
    """
    return elementwise.absolute(x)


@builtin
def fma(x: Any, y: Any, z: Any) -> tensor:
    """`x * y + z`, rounded once; for fp8, once in fp32 and then to fp8. For integers, the plain expression.

    >>> y = kl.fma(a, x, b)
    """
    return elementwise.fused_multiply_add(x, y, z)


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: Any = False) -> tensor:
    """Quotient of floats, in the type of the operands. Correctly rounded with `ieee_rounding` and on the CPU; otherwise
    within 2 ulp in fp32 on GPUs, as is `/`.

    >>> y = kl.fdiv(x, total)
    """
    return arithmetic.divide_float(x, y, "kl.fdiv", exact=bool(unwrap(ieee_rounding)))


@builtin
def div_rn(x: Any, y: Any) -> tensor:
    """Quotient of floats, rounded to nearest even on every target.

    >>> y = kl.div_rn(x, total)
    """
    return arithmetic.divide_float(x, y, "kl.div_rn", exact=True)


@builtin
def umulhi(x: Any, y: Any) -> tensor:
    """The upper half of the product of two 32- or 64-bit integers, treated as unsigned.

    >>> high = kl.umulhi(x, 0xD2511F53)
    """
    return arithmetic.high_product(x, y)


@builtin
def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """The greater of two numbers, element by element.

    If one of them is NaN, the result is the other; with `propagate_nan=kl.PropagateNan.ALL`, it is NaN.

    >>> y = kl.maximum(x, 0)
    """
    return arithmetic.extremum("max", x, y, propagate_nan)


@builtin
def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """The lesser of two numbers, element by element. NaN as in `kl.maximum`.

    >>> rows = kl.minimum(n - start, BLOCK)
    """
    return arithmetic.extremum("min", x, y, propagate_nan)


@builtin
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """Clamps floats to [min, max]. With `propagate_nan=kl.PropagateNan.ALL` a NaN stays NaN.

    >>> y = kl.clamp(x, -1.0, 1.0)
    """
    return arithmetic.clamp(x, min, max, propagate_nan)


@builtin
def add(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """`x + y`.

    >>> z = kl.add(x, y)
    """
    return arithmetic.binary("+", x, y)


@builtin
def sub(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """`x - y`.

    >>> z = kl.sub(x, y)
    """
    return arithmetic.binary("-", x, y)


@builtin
def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """`x * y`.

    >>> z = kl.mul(x, y)
    """
    return arithmetic.binary("*", x, y)

"""Counter-based random numbers: the same seed and offset give the same number, on every target and in any order.

The generator is Philox of Salmon et al., 4 words of 32 bits (or of 64, for 64-bit counters), 10 rounds.
"""

from __future__ import annotations

from typing import Any

from . import values
from .builtin import builtin
from .semantic import arithmetic, elementwise
from .semantic.build import constant, error
from .semantic.cast import bitcast, cast
from .semantic.operand import constexpr_int, describe, to_tensor
from .semantic.shape import broadcast_many
from .types import int32, int64, uint32, uint64
from .values import tensor, unwrap

N_ROUNDS_DEFAULT = 10

# Multipliers and key increments, by width.
_PHILOX = {
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}


def _word(value: Any, bits: int) -> tensor:
    """A counter or key word as an unsigned integer."""
    ty = uint32 if bits == 32 else uint64
    plain = unwrap(value)
    if isinstance(plain, int):
        return constant(ty, plain)
    value = to_tensor(plain, "integers as seed and counters of random numbers")
    if not value.type.scalar.is_int():
        raise error(f"expected integers as seed and counters of random numbers, got {value.type}", value=plain)
    return cast(value, ty)


@builtin
def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> values.tuple:
    """Rounds of Philox on counter (c0, c1, c2, c3) and key (k0, k1): four words of the counter's width.

    >>> r0, r1, r2, r3 = kl.philox_impl(c0, c1, c2, c3, k0, k1)
    """
    rounds = constexpr_int(n_rounds, "n_rounds of Philox")
    first = unwrap(c0)
    wide = isinstance(first, tensor) and first.type.scalar.primitive_bitwidth == 64
    bits = 64 if wide else 32
    multiply_a, multiply_b, step_a, step_b = _PHILOX[bits]
    c0, c1, c2, c3 = broadcast_many([_word(c, bits) for c in (c0, c1, c2, c3)], "kl.philox")
    k0, k1 = _word(k0, bits), _word(k1, bits)
    for _ in range(rounds):
        high_a, low_a = arithmetic.high_product(c0, multiply_a), c0 * multiply_a
        high_b, low_b = arithmetic.high_product(c2, multiply_b), c2 * multiply_b
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a
        k0, k1 = k0 + step_a, k1 + step_b
    return values.tuple([c0, c1, c2, c3])


@builtin
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> values.tuple:
    """Philox with a 64-bit seed as the key, low word first.

    >>> r0, r1, r2, r3 = kl.philox(seed, offsets, 0, 0, 0)
    """
    key = _word(seed, 64)
    first = unwrap(c0)
    if isinstance(first, tensor) and first.type.scalar.primitive_bitwidth == 64:
        return philox_impl(c0, c1, c2, c3, key, 0, n_rounds)
    return philox_impl(c0, c1, c2, c3, cast(key & 0xFFFFFFFF, uint32), cast(key >> 32, uint32), n_rounds)


@builtin
def randint4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> values.tuple:
    """Four tensors of random uint32 for a seed and offsets: the whole output of one run of the generator.

    >>> a, b, c, d = kl.randint4x(seed, offsets)
    """
    offset = to_tensor(offset, "integer offsets in kl.randint4x")
    if not offset.type.scalar.is_int():
        raise error(f"expected integer offsets in kl.randint4x, got {describe(offset)}")
    low = cast(offset, uint32)
    high: Any = 0
    if offset.type.scalar.int_bitwidth > 32:
        high = cast(cast(offset, uint64) >> 32, uint32)
    return philox(seed, low, high, 0, 0, n_rounds)


@builtin
def randint(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> tensor:
    """A tensor of random uint32 for a seed and offsets.

    >>> r = kl.randint(seed, offsets)
    """
    return randint4x(seed, offset, n_rounds)[0]


@builtin
def uint_to_uniform_float(x: Any) -> tensor:
    """Random integers as fp32 in [0, 1): the bits read as signed, made non-negative and scaled.

    >>> u = kl.uint_to_uniform_float(kl.randint(seed, offsets))
    """
    x = to_tensor(x)
    element = x.type.scalar
    if element in (uint32, int32):
        # The largest factor that keeps 2^31 - 1 below 1 in fp32.
        signed, scale = int32, 4.6566127342e-10
    elif element in (uint64, int64):
        signed, scale = int64, 1.0842020432385337e-19
    else:
        raise error(f"expected 32- or 64-bit integers in kl.uint_to_uniform_float, got {element}")
    x = bitcast(x, signed)
    return arithmetic.where(x < 0, -x - 1, x) * scale


@builtin
def rand(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> tensor:
    """Random fp32, uniform in [0, 1).

    >>> keep = kl.rand(seed, offsets) > p
    """
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@builtin
def rand4x(seed: Any, offsets: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> values.tuple:
    """Four tensors of random fp32, uniform in [0, 1).

    >>> a, b, c, d = kl.rand4x(seed, offsets)
    """
    return values.tuple([uint_to_uniform_float(word) for word in randint4x(seed, offsets, n_rounds)])


@builtin
def pair_uniform_to_normal(u1: Any, u2: Any) -> values.tuple:
    """Turns two uniform fp32 numbers into two normally distributed ones (Box-Muller).

    >>> n1, n2 = kl.pair_uniform_to_normal(u1, u2)
    """
    u1 = arithmetic.extremum("max", 1.0e-7, u1)
    angle = 6.283185307179586 * to_tensor(u2)
    radius = elementwise.math_op("sqrt", "kl.sqrt", -2.0 * elementwise.math_op("log", "kl.log", u1))
    cosine = elementwise.math_op("cos", "kl.cos", angle)
    return values.tuple([radius * cosine, radius * elementwise.math_op("sin", "kl.sin", angle)])


@builtin
def randn(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> tensor:
    """Random fp32, normally distributed with mean 0 and standard deviation 1.

    >>> noise = kl.randn(seed, offsets)
    """
    first, second, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(first), uint_to_uniform_float(second))[0]


@builtin
def randn4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> values.tuple:
    """Four tensors of random fp32, normally distributed.

    >>> a, b, c, d = kl.randn4x(seed, offsets)
    """
    u = [uint_to_uniform_float(word) for word in randint4x(seed, offset, n_rounds)]
    return values.tuple([*pair_uniform_to_normal(u[0], u[1]), *pair_uniform_to_normal(u[2], u[3])])

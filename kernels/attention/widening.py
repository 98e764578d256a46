"""Codes of eight and four bits as float16, several to an instruction: what `quantized.py` multiplies (CACHE.md has the
formats).

Where assembly is written, a portable form says the same element by element.
"""

from __future__ import annotations

import kiln
import kiln.language as kl

# Four-bit keys are scaled down by this, so that steps up to 15 fit.
SMALLER: kl.constexpr = kl.constexpr(2.0**-12)


@kiln.jit
def _number(byte):
    return (byte.to(kl.float32) - 128.0).to(kl.float16)


@kiln.jit
def numbers(bytes_):
    """byte - 128: a byte below 0x64 is the float16 1024 + byte."""
    return kl.inline_asm_elementwise(
        "{ .reg .b32 m; mov.b32 m, 0xE480E480; prmt.b32 $0, $2, 0x64646464, 0x4140; "
        "prmt.b32 $1, $2, 0x64646464, 0x4342; add.rn.f16x2 $0, $0, m; add.rn.f16x2 $1, $1, m; }",
        "=&r,=&r,r",
        [bytes_],
        kl.float16,
        True,
        4,
        portable=_number,
    )


@kiln.jit
def _bits(number):
    return number.to(kl.uint16).to(kl.float16, bitcast=True)


@kiln.jit
def _fours(byte):
    return _bits(byte & 15), _bits(byte & 240)


@kiln.jit
def fours(bytes_):
    """The low four bits of a byte times 2^-24 and the high ones times 2^-20: the float16 values of such an integer's
    bits. Products handle numbers this small like any others."""
    return kl.inline_asm_elementwise(
        "{ .reg .b32 a, b; prmt.b32 a, $4, 0, 0x4140; prmt.b32 b, $4, 0, 0x4342; and.b32 $0, a, 0x000F000F; "
        "and.b32 $1, b, 0x000F000F; and.b32 $2, a, 0x00F000F0; and.b32 $3, b, 0x00F000F0; }",
        "=&r,=&r,=&r,=&r,r",
        [bytes_],
        (kl.float16, kl.float16),
        True,
        4,
        portable=_fours,
    )


@kiln.jit
def _fours_of_pairs(pair):
    return _bits(pair & 15), _bits(pair & 240), _bits(pair >> 8 & 15), _bits(pair >> 8 & 240)


@kiln.jit
def fours_of_pairs(pairs):
    """`fours` of the first bytes of pairs, and of the second ones."""
    return kl.inline_asm_elementwise(
        "{ .reg .b32 h; shr.b32 h, $4, 8; and.b32 $0, $4, 0x000F000F; and.b32 $1, $4, 0x00F000F0; "
        "and.b32 $2, h, 0x000F000F; and.b32 $3, h, 0x00F000F0; }",
        "=&r,=&r,=&r,=&r,r",
        [pairs],
        (kl.float16, kl.float16, kl.float16, kl.float16),
        True,
        2,
        portable=_fours_of_pairs,
    )


@kiln.jit
def _fours_and_bytes(byte):
    return _bits(byte & 15), _bits(byte)


@kiln.jit
def fours_and_bytes(bytes_):
    """The low four bits of a byte, and the whole byte, times 2^-24: the high bits need not be masked out if their
    multiplier is subtracted from that of the low bits. (For values that would subtract sums of the low bits from sums
    of the whole, which tensor cores round to fewer bits.)"""
    return kl.inline_asm_elementwise(
        "{ prmt.b32 $2, $4, 0, 0x4140; prmt.b32 $3, $4, 0, 0x4342; "
        "and.b32 $0, $2, 0x000F000F; and.b32 $1, $3, 0x000F000F; }",
        "=&r,=&r,=&r,=&r,r",
        [bytes_],
        (kl.float16, kl.float16),
        True,
        4,
        portable=_fours_and_bytes,
    )


@kiln.jit
def step_and_zero(word):
    """The meaning of four-bit codes by their word: a code stands for (code + zero) · step."""
    return ((word >> 8) << 7).to(kl.uint16).to(kl.float16, bitcast=True), (word & 255).to(kl.float32) - 128.0


@kiln.jit
def _factors_of_low(word):
    step, zero = step_and_zero(word)
    return step * 4096.0, ((zero * SMALLER).to(kl.float16) * step).to(kl.float16)


@kiln.jit
def _factors_of_high(word):
    step, zero = step_and_zero(word)
    return step * 256.0, ((zero * SMALLER).to(kl.float16) * step).to(kl.float16)


@kiln.jit
def factors(words, HIGH: kl.constexpr):
    """The multiplier of low or high bits as `fours` returns them, and the addend: together they give keys times
    SMALLER, which keeps both within the range of float16."""
    return kl.inline_asm_elementwise(
        "{ .reg .b32 s, m; shr.b32 s, $2, 1; and.b32 s, s, 0x7F807F80; mov.b32 m, "
        + ("0x5C005C00" if HIGH else "0x6C006C00")
        + "; mul.rn.f16x2 $0, s, m; lop3.b32 $1, $2, 0x00FF00FF, 0x64006400, 0xEA; "
        "{ .reg .b32 k, z; mov.b32 k, 0x0C000C00; mov.b32 z, 0xB480B480; fma.rn.f16x2 $1, $1, k, z; } "
        "mul.rn.f16x2 $1, $1, s; }",
        "=&r,=&r,r",
        [words],
        (kl.float16, kl.float16),
        True,
        2,
        portable=_factors_of_high if HIGH else _factors_of_low,
    )


@kiln.jit
def _steps_and_low_zeros(word):
    step, zero = step_and_zero(word)
    return step, (zero * 2.0**-24).to(kl.float16)


@kiln.jit
def _steps_and_high_zeros(word):
    step, zero = step_and_zero(word)
    return step, (zero * 2.0**-20).to(kl.float16)


@kiln.jit
def steps_and_zeros(words, HIGH: kl.constexpr):
    """Steps and zeros of low or high bits by their words, with zeros scaled like the codes of `fours`."""
    return kl.inline_asm_elementwise(
        "{ .reg .b32 k, z; shr.b32 $0, $2, 1; and.b32 $0, $0, 0x7F807F80; "
        "lop3.b32 $1, $2, 0x00FF00FF, 0x64006400, 0xEA; "
        + (
            "mov.b32 k, 0x00100010; mov.b32 z, 0x94809480; "
            if HIGH
            else "mov.b32 k, 0x00010001; mov.b32 z, 0x84808480; "
        )
        + "fma.rn.f16x2 $1, $1, k, z; }",
        "=&r,=&r,r",
        [words],
        (kl.float16, kl.float16),
        True,
        2,
        portable=_steps_and_high_zeros if HIGH else _steps_and_low_zeros,
    )


@kiln.jit
def _widened(code, factor, zero):
    return (code.to(kl.float32) * factor.to(kl.float32) + zero.to(kl.float32)).to(kl.float16)


@kiln.jit
def widened(code, factor, zero):
    return kl.inline_asm_elementwise(
        "fma.rn.f16x2 $0, $1, $2, $3;", "=r,r,r,r", [code, factor, zero], kl.float16, True, 2, portable=_widened
    )


@kiln.jit
def _product(a, b):
    return (a.to(kl.float32) * b.to(kl.float32)).to(kl.float16)


@kiln.jit
def product(a, b):
    return kl.inline_asm_elementwise(
        "mul.rn.f16x2 $0, $1, $2;", "=r,r,r", [a, b], kl.float16, True, 2, portable=_product
    )


@kiln.jit
def _product_less(a, b, c):
    return (a.to(kl.float32) * b.to(kl.float32) - c.to(kl.float32)).to(kl.float16)


@kiln.jit
def product_less(a, b, c):
    """a · b - c, rounded once."""
    return kl.inline_asm_elementwise(
        "{ .reg .b32 n; neg.f16x2 n, $3; fma.rn.f16x2 $0, $1, $2, n; }",
        "=r,r,r,r",
        [a, b, c],
        kl.float16,
        True,
        2,
        portable=_product_less,
    )


@kiln.jit
def _sum(a, b):
    return (a.to(kl.float32) + b.to(kl.float32)).to(kl.float16)


@kiln.jit
def sum_of(a, b):
    return kl.inline_asm_elementwise("add.rn.f16x2 $0, $1, $2;", "=r,r,r", [a, b], kl.float16, True, 2, portable=_sum)


@kiln.jit
def _same(x):
    return x


@kiln.jit
def anything(like):
    """Numbers that nobody has written, in registers that are nobody's: for rows of a product whose results nobody
    reads. Rows repeated instead would be copied, since a product reads adjacent registers."""
    return kl.inline_asm_elementwise("", "=r,r", [like], kl.float16, True, 2, portable=_same)

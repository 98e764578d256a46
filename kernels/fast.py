"""Operations that GPUs have and the language does not name, with what stands in elsewhere."""

from __future__ import annotations

import kiln
import kiln.language as kl


@kiln.jit
def _exp2(x):
    return kl.exp2(x)


@kiln.jit
def exp2_flushed(x):
    """2^x in one instruction: results below 2^-126 may be 0, where ``kl.exp2`` spends three more to scale them."""
    return kl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], kl.float32, True, 1, portable=_exp2)


@kiln.jit
def _reciprocal(x):
    return 1.0 / x


@kiln.jit
def reciprocal(x):
    """1 / x in one instruction, to one unit in the last place; denormal numbers count as 0."""
    return kl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], kl.float32, True, 1, portable=_reciprocal
    )


@kiln.jit
def sigmoid_narrow(x):
    """1 / (1 + exp(-x)) for results that are rounded to 16 bits: its relative error is (2 + 2|x|) units of float32."""
    return reciprocal(1.0 + exp2_flushed(x * -1.4426950408889634))

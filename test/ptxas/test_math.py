"""Machine code of the math expansion: every function assembles, and frequent ones have the expected length."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import pytest
from kiln import compiler, frontend, toolchain
from kiln.cli.signature import parse_signature
from kiln.language.extra import libdevice

FUNCTIONS = {
    name: getattr(libdevice, name)
    for name in (
        "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 rint "
        "round rsqrt sin sinh sqrt tan tanh trunc"
    ).split()
}
PER_THREAD = 8


@kiln.jit
def unary(x, out, FUNCTION: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(out + i, FUNCTION(kl.load(x + i)))


@kiln.jit
def gelu(x, out, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    v = kl.load(x + i).to(kl.float32)
    kl.store(out + i, (0.5 * v * (1 + kl.erf(v * 0.7071067811865476))).to(out.dtype.element_ty))


@kiln.jit
def gelu_without_erf(x, out, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    v = kl.load(x + i).to(kl.float32)
    kl.store(out + i, (0.5 * v * (1 + v * 0.7071067811865476)).to(out.dtype.element_ty))


@kiln.jit
def same(x):
    return x


@kiln.jit
def quotient(x):
    return 1.5 / x


@kiln.jit
def exact_quotient(x):
    return kl.div_rn(kl.full(x.shape, 1.5, kl.float32), x)


def build(kernel, ty: str, function=None, target: str = "sm_90a", to: str = "object"):
    block = 32 * 4 * PER_THREAD
    text = f"x=*{ty}:16, out=*{ty}:16, BLOCK={block}"
    parameters = [p for p in kernel.params if p.name != "FUNCTION"]
    assert len(parameters) + (function is not None) == len(kernel.params)
    signature = _signature(kernel, text, function)
    return compiler.compile(frontend.emit(kernel, signature, kernel.__name__), {"target": target, "to": to})


def _signature(kernel, text, function):
    if function is None:
        return parse_signature(text, kernel)
    from kiln.frontend.signature import Parameter

    given = parse_signature(text + ", FUNCTION=0", kernel)
    return [Parameter("FUNCTION", "constexpr", value=function) if p.name == "FUNCTION" else p for p in given]


def instructions(artifact) -> int:
    """How many instructions can execute; padding does not count."""
    listing = re.findall(
        r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)", artifact.text("sass"), re.MULTILINE
    )
    return sum(op not in ("NOP", "BRA") for op in listing)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", ("sm_80", "sm_90a", "sm_120a"))
def test_every_function_assembles(target, name):
    for ty in ("fp32", "fp64"):
        artifact = build(unary, ty, FUNCTIONS[name], target)
        ptx = artifact.text("ptx")
        assert not re.search(r"^\s*call", ptx, re.MULTILINE), f"{name} of {ty} calls a function"
        assert ".local" not in ptx, f"{name} of {ty} needs local memory"


needs_sass = pytest.mark.skipif("toolchain.nvdisasm() is None", reason="no nvdisasm (package nvidia-cuda-nvdisasm)")


def cost(function) -> float:
    """Instructions per element, not counting those that move it."""
    return (instructions(build(unary, "fp32", function)) - instructions(build(unary, "fp32", same))) / PER_THREAD


@needs_sass
def test_frequent_functions_are_short():
    assert cost(kl.exp) <= 9
    assert cost(kl.exp2) <= 5
    assert cost(kl.rsqrt) <= 5
    assert cost(quotient) <= 9
    assert cost(exact_quotient) > cost(quotient)


@needs_sass
@pytest.mark.parametrize("ty", ("fp16", "bf16"))
def test_erf_narrowed_to_16_bits_takes_at_most_16_instructions(ty):
    with_erf, without = instructions(build(gelu, ty)), instructions(build(gelu_without_erf, ty))
    assert (with_erf - without) / PER_THREAD <= 16
    assert (with_erf - without) / PER_THREAD >= 8, "the comparison measures something else"


def test_erf_that_stays_wide_is_exact():
    assert "ex2" not in build(gelu, "fp32", to="ptx").output
    assert "ex2" in build(gelu, "fp16", to="ptx").output


def test_conversions_are_instructions():
    assert toolchain.ptxas() is not None
    for source, target, instruction in (
        ("fp32", "fp8e4nv", "cvt.rn.satfinite.e4m3x2.f32"),
        ("fp32", "fp8e5", "cvt.rn.satfinite.e5m2x2.f32"),
        ("fp8e4nv", "fp32", "cvt.rn.f16x2.e4m3x2"),
        ("fp32", "bf16", "cvt.rn.bf16"),
        ("fp32", "fp16", "cvt.rn.f16"),
    ):
        signature = parse_signature(f"x=*{source}:16, out=*{target}:16, BLOCK=1024", convert)
        for row, has in (("sm_89", True), ("sm_80", "fp8" not in source + target)):
            ptx = compiler.compile(frontend.emit(convert, signature, "convert"), {"target": row, "to": "ptx"}).output
            assert (instruction in ptx) == has, f"{source} to {target} for {row}"


@kiln.jit
def convert(x, out, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + i).to(out.dtype.element_ty))

"""User PTX that ptxas rejects is an error at the user's line; any other PTX that it rejects is a fault of Kiln."""

from __future__ import annotations

import kiln
import kiln.language as kl
import pytest
from kiln import compiler, frontend, toolchain
from kiln.errors import CompilationError, InternalError
from kiln.frontend.signature import Parameter

pytestmark = pytest.mark.skipif(toolchain.ptxas() is None, reason="no ptxas (package nvidia-cuda-nvcc)")


@kiln.jit
def two_texts(x, TEXT: kl.constexpr, PACK: kl.constexpr):
    i = kl.arange(0, 128)
    v = kl.load(x + i)
    v = kl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [v], kl.float32, True, 1)
    v = kl.inline_asm_elementwise(TEXT, "=f,f,f" if PACK == 1 else "=f,=f,f,f,f,f", [v, v], kl.float32, True, PACK)
    kl.store(x + i, v)


def compiled(text: str, pack: int = 1, to: str = "cubin"):
    values = {"TEXT": text, "PACK": pack}
    parameters = [Parameter("x", "runtime", "*fp32", divisible=True)]
    parameters += [Parameter(name, "constexpr", value=value) for name, value in values.items()]
    module = frontend.emit(two_texts, parameters, "two_texts", target="sm_90a")
    return compiler.compile(module, {"target": "sm_90a", "to": to, "ptxas": toolchain.ptxas().path}).output


WRONG = {
    "bogus.f32 $0, $1, $2;": "bogus",
    "add.f32 $0, $1;": "rguments mismatch",
    "{\n  .reg .f32 half;\n  mul.f32 half, $1, 0f3F000000;\n  add.f32 $0, halb, $2;\n}": "halb",
    "add.f32 $0, $1, $2; // twice\n\tadd.s16 $0, $0, $2;": "rguments mismatch",
}


@pytest.mark.parametrize("text", WRONG)
def test_the_line_of_the_text_is_named(text):
    with pytest.raises(CompilationError) as caught:
        compiled(text)
    said = str(caught.value)
    lines = two_texts.fn.__code__.co_firstlineno
    assert f"test_assembly.py:{lines + 5}:9: error: expected PTX that the assembler takes" in said
    assert WRONG[text] in said and "fault of Kiln" not in said


def test_valid_assembly_with_dollars_and_packs_is_accepted():
    assert compiled("{.reg .f32 $$h; mul.f32 $$h, $1, $2; add.f32 $0, $$h, $2;}")
    assert compiled("add.f32 $0, $2, $4; add.f32 $1, $3, $5;", pack=2)


def test_other_lines_are_a_fault_of_kiln():
    ptx = compiled("add.f32 $0, $1, $2;", to="ptx")
    assert "add.f32" in ptx
    broken = ptx.replace("add.f32", "bogus.f32")
    with pytest.raises(InternalError, match="fault of Kiln"):
        compiler.compile_text(broken, "ptx", {"ptxas": toolchain.ptxas().path})

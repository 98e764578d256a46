"""Source lines in machine code: comments in the disassembly, which code that parses instructions ignores."""

import pathlib
import re
import sys

import kiln
import kiln.language as kl
import pytest
from kiln import compiler, frontend, toolchain  # noqa: F401, the condition names it
from kiln.cli.signature import parse_signature

pytestmark = pytest.mark.skipif("toolchain.nvdisasm() is None", reason="no nvdisasm (package nvidia-cuda-nvdisasm)")


@kiln.jit
def shifted(x, out, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + i)
    value = kl.exp(value)
    kl.store(out + i, value)


def disassembled(target: str, line_info: bool) -> str:
    signature = parse_signature("x=*fp32:16, out=*fp32:16, BLOCK=1024", shifted)
    options = {"target": target, "to": "cubin", "line_info": line_info}
    return compiler.compile(frontend.emit(shifted, signature, "shifted"), options).text("sass")


def lines_of(text: str, opcode: str) -> set[str]:
    """The source of the lines that instructions with an opcode are attributed to."""
    with open(__file__) as file:
        source = [line.strip() for line in file]
    found, line = set(), 0
    for row in text.splitlines():
        if match := re.match(r'\s*//## File "(.*)", line (\d+)', row):
            assert match[1] == __file__
            line = int(match[2])
        elif re.search(rf"\s{opcode}\b", row):
            found.add(source[line - 1])
    return found


@pytest.mark.parametrize("target", ("sm_80", "sm_90a", "sm_120a"))
def test_instructions_are_under_their_lines(target):
    text = disassembled(target, line_info=True)
    assert lines_of(text, "LDG") == {"value = kl.load(x + i)"}
    assert lines_of(text, "STG") == {"kl.store(out + i, value)"}
    assert "value = kl.exp(value)" in lines_of(text, "MUFU")


def test_without_line_info_there_are_none():
    assert "//##" not in disassembled("sm_90a", line_info=False)


def test_the_lines_are_no_instructions():
    from test_math import instructions

    class Text:
        def __init__(self, text):
            self.text = lambda stage: text

    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
    import sass

    text = disassembled("sm_90a", line_info=True)
    plain = re.sub(r"(?m)^\s*//##.*\n", "", text)
    assert plain != text
    assert instructions(Text(text)) == instructions(Text(plain)) > 20
    assert sass.read(text) == sass.read(plain)
    assert sass.read(text).loads == {16: 2} and sass.read(text).stores == {16: 2}

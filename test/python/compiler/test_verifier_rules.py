"""Every rule of the verifiers of layouts, barriers and channels has a program that breaks it.

A rule is an error that a verifier reports. A lit test that expects its text fails once the rule is removed. Mutating
programs (`mutate-channels.test`) shows that the rules suffice, not that each is needed.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
VERIFIERS = (
    "compiler/transforms/kgpu/VerifyBarriers.cpp",
    "compiler/transforms/kgpu/VerifyBarrierOrder.cpp",
    "compiler/transforms/kgpu/VerifyChannels.cpp",
    "compiler/transforms/kgpu/RoleScalars.cpp",
    "compiler/transforms/kgpu/RoleTrace.cpp",
    "compiler/conversion/tile_to_kgpu/VerifyLayouts.cpp",
)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Length of a run of words that distinguishes one rule from the others.
TELLING = 24


def rules(source: str) -> list[list[str]]:
    """For each error, the constant pieces of its text; the text between two pieces is computed."""
    found = []
    for statement in re.findall(r"emit(?:Op)?Error\(.*?;", source, re.DOTALL):
        text = re.sub(r'"\s*"', "", statement)
        pieces = [piece for piece in LITERAL.findall(text) if len(piece) >= TELLING]
        if pieces:
            found.append(pieces)
    return found


def expectations() -> str:
    folders = (ROOT / "test/compiler/transforms", ROOT / "test/compiler/tile_to_kgpu")
    lines = [
        line
        for folder in folders
        for pattern in ("*.mlir", "*.test")
        for path in folder.rglob(pattern)
        for line in path.read_text().splitlines()
        if "expected-error" in line or "CHECK" in line
    ]
    return "\n".join(lines)


EXPECTED = expectations()


def is_expected(pieces: list[str]) -> bool:
    """Whether a test quotes a distinctive part of the text."""
    for piece in pieces:
        words = piece.split(" ")
        for first in range(len(words)):
            part = ""
            for word in words[first:]:
                part = f"{part} {word}".strip()
                if len(part) >= TELLING:
                    if part in EXPECTED:
                        return True
                    break
    return False


@pytest.mark.parametrize("path", VERIFIERS)
def test_every_rule_is_broken_by_a_test(path):
    found = rules((ROOT / path).read_text())
    assert found
    assert [pieces[0] for pieces in found if not is_expected(pieces)] == []


def test_an_untested_rule_is_found():
    (rule,) = rules('  return op->emitOpError("expected the moon to be made of "\n    "green cheese, got ") << moon;')
    assert rule == ["expected the moon to be made of green cheese, got "] and not is_expected(rule)

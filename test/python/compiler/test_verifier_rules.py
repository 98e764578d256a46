"""Every rule of the verifiers of layouts, barriers and channels has a program that breaks it.

A rule is an error that a verifier reports. A lit test that expects words of its text that no other error has fails once
the rule is removed. Mutating programs (`mutate-channels.test`) shows that the rules suffice, not that each is needed.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
VERIFIERS = (
    "compiler/transforms/kgpu/VerifyBarriers.cpp",
    "compiler/transforms/kgpu/VerifyBarrierOrder.cpp",
    "compiler/transforms/kgpu/VerifyChannels.cpp",
    "compiler/transforms/kgpu/VerifyWarpReads.cpp",
    "compiler/transforms/kgpu/RoleScalars.cpp",
    "compiler/transforms/kgpu/RoleTrace.cpp",
    "compiler/conversion/tile_to_kgpu/VerifyLayouts.cpp",
)
# Words of one of two alternatives that make it a rule of its own.
TELLING = 3
LITERAL = r'"(?:[^"\\]|\\.)*"'
CHOICE = re.compile(rf"\?\s*({LITERAL})\s*:\s*({LITERAL})")
# An error, or a call of the function in VerifyBarriers.cpp that reports a missing barrier for a reason.
STATEMENT = re.compile(rf"\b(?:emit(?:Op)?Error|missing)\((?:{LITERAL}|[^;\"])*;")


def rules(source: str) -> list[list[str]]:
    """For each error, the constant pieces of its text; the text between two pieces is computed. An error that says one
    of two things is two rules."""
    found = []
    for statement in STATEMENT.findall(source):
        statement = re.sub(r'"\s*"', "", statement)
        forms = [statement]
        for one, other in CHOICE.findall(statement):
            if min(len(one.split()), len(other.split())) >= TELLING:
                forms = [form.replace(dropped, "") for form in forms for dropped in (one, other)]
        for form in forms:
            if pieces := [piece[1:-1] for piece in re.findall(LITERAL, form)]:
                found.append(pieces)
    return found


def errors(folders: tuple[str, ...]) -> list[list[str]]:
    """The rules of all sources."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.cpp"))
    return [rule for path in paths for rule in rules(path.read_text())]


def expectations() -> str:
    """The errors that the tests of the verifiers expect, one a line."""
    folders = (ROOT / "test/compiler/transforms", ROOT / "test/compiler/tile_to_kgpu")
    found = []
    for folder in folders:
        for path in sorted((*folder.rglob("*.mlir"), *folder.rglob("*.test"))):
            text = path.read_text()
            found += re.findall(r"expected-error\b[^{\n]*\{\{(.*)\}\}", text)
            found += re.findall(r"CHECK[A-Z-]*: .*error: (.*)", text)
    return "\n".join(found)


EXPECTED = expectations()
EVERY = errors(("compiler", "dialects"))


def is_expected(rule: list[str], every: list[list[str]] = EVERY) -> bool:
    """Whether a test quotes words of the rule that are in no other error."""
    others = "\n".join(piece for other in every if other != rule for piece in other)
    assert every.count(rule) < 2, f"two errors have the same text: {rule}"
    for piece in rule:
        words = piece.split()
        for first in range(len(words)):
            for last in range(len(words), first, -1):
                part = " ".join(words[first:last])
                if part in EXPECTED:
                    if part not in others and last - first > 1:
                        return True
                    break
    return False


@pytest.mark.parametrize("path", VERIFIERS)
def test_every_rule_is_broken_by_a_test(path):
    source = (ROOT / path).read_text()
    found = rules(source)
    assert found and len(found) >= len(re.findall(r"\bemit(?:Op)?Error\(", source))
    assert [rule for rule in found if not is_expected(rule)] == []


def test_a_rule_whose_words_another_error_has_is_found():
    rule = ["expected a commit of the slot first"]
    assert is_expected(rule, [rule, ["expected a release of the slot first"]])
    assert not is_expected(rule, [rule, ["expected a commit of the slot first of all"]])


def test_an_untested_rule_is_found():
    (rule,) = rules('  return op->emitOpError("expected the moon to be made of "\n    "green cheese, got ") << moon;')
    assert rule == ["expected the moon to be made of green cheese, got "] and not is_expected(rule)

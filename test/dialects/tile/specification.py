"""Checks the promises of a dialect's .td files: every definition is documented and every label tested.

`examples` prints the ```mlir blocks, for kiln-opt. `labels` fails unless constraints and negative tests match one to
one. `documented` fails for an op without a description, constraint, example or argument texts.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^( *)```mlir\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"^ *- `(\w+_c\d+)`:", re.MULTILINE)
TESTED = re.compile(r"@(\w+_c\d+)(?:_\w+)?\b")
DEFINITION = re.compile(
    r"^def \w+?_(\w+) : \w+?_(?:Op|EffectOp|EarlyOp|ChannelStep|TypeDef)<(.*?)^}$", re.MULTILINE | re.DOTALL
)
# A text may be followed by the effects on its operand: `"text", [MemRead<...>]>:$name`.
TEXT = re.compile(r'"(?:,\s*\[[^:]*\])?>:\$')
# Ops with no constraints beyond their types.
UNCONSTRAINED = {
    "AdvanceOp",
    "BarrierOp",
    "CloseReadsOp",
    "ClusterArriveOp",
    "ClusterWaitOp",
    "CursorOp",
    "EndRoleOp",
    "FenceAsyncOp",
    "FirstProgramOp",
    "LaunchDependentsOp",
    "ProgramStepOp",
    "SkipOp",
    "TensorMapType",
    "WaitForGridOp",
}


def definitions(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.td")))


def examples(folder: Path) -> list[str]:
    blocks = [re.sub(f"^{match[1]}", "", match[2], flags=re.MULTILINE) for match in BLOCK.finditer(definitions(folder))]
    print("// -----\n".join(blocks))
    return []


def labels(folder: Path, tests: Path) -> list[str]:
    stated = LABEL.findall(definitions(folder))
    tested = {label for path in tests.glob("invalid*.mlir") for label in TESTED.findall(path.read_text())}
    problems = [f"constraint {label} has no negative test" for label in stated if label not in tested]
    problems += [f"test names {label}, which no .td file states" for label in sorted(tested - set(stated))]
    problems += [f"constraint {label} is stated twice" for label in sorted(set(stated)) if stated.count(label) > 1]
    if not problems:
        print(f"{len(stated)} constraints, each with a negative test")
    return problems


def documented(folder: Path) -> list[str]:
    problems = []
    found = DEFINITION.findall(definitions(folder))
    for name, body in found:
        if not BLOCK.search(body):
            problems.append(f"{name} has no example")
        if not LABEL.search(body) and name not in UNCONSTRAINED:
            problems.append(f"{name} states no constraint")
        for values in re.findall(r"let (?:arguments|results) = \((?:ins|outs) (.*?)\);", body, re.DOTALL):
            if (texts := len(TEXT.findall(values))) < (names := values.count(":$")):
                problems.append(f"{name} has {names} arguments or results but {texts} texts for them")
    if not problems:
        print(f"{len(found)} definitions, each documented")
    return problems


def main() -> int:
    mode, *folders = sys.argv[1:]
    check = {"examples": examples, "labels": labels, "documented": documented}[mode]
    problems = check(*map(Path, folders))
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

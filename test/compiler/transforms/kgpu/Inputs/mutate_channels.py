"""Mutates kernels that kiln-verify-channels accepts, one step at a time, and expects each mutant to be rejected.

    mutate_channels.py FILE.mlir        the kernels, split by `// -----`; `-`: standard input

A mutant lacks a step, does one twice, waits for too little or for too few warps, or does two steps in the wrong order.
Every mutant must be legal IR, so that it is this pass that rejects it; only `acquire` is also checked by the verifier
of the copies that need it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DELETED = re.compile(r"kgpu\.(commit|release|copy_in|copy_block|copy_tile|copy_out_wait|fence_async|local_store)\b")
DOUBLED = re.compile(r"^ *kgpu\.(commit|release|copy_in)\b")
# acquire and receive of a slot without contents have no results.
ALONE = re.compile(r"^ *kgpu\.(acquire|receive)\b")
FORWARDED = re.compile(r"^( *)(%\w+) = kgpu\.(advance|skip|mma_wait) (%[\w#]+)")
GIVEN = re.compile(r"^( *)(%\w+)(:\d+)? = kgpu\.(acquire|receive) (%\w+)\[(%\w+)\](.*)$")
COMPLETION = re.compile(r"kgpu\.channel +(\w+)")
LOOP = re.compile(r"^( *).*scf\.for .* iter_args\((.*?)\)")
# Steps that must not be swapped with the following line.
ORDERED = [
    ("copy_in", "commit"),
    ("copy_block", "commit"),
    ("copy_tile", "commit"),
    ("fence_async", "commit"),
    ("local_store", "fence_async"),
    ("local_store", "commit"),
    ("mma_wait", "release"),
    ("local_load", "release"),
    ("copy_out ", "copy_out_wait"),
]


def joined(kernel: str) -> list[str]:
    """The lines, with loop headers that span two lines joined."""
    return re.sub(r"\n +-> ", " -> ", kernel).split("\n")


def inits(line: str) -> dict[str, str]:
    """The initial values of a loop's carried values."""
    match = LOOP.match(line)
    return dict(re.findall(r"(%\w+) = (%[\w#]+)", match[2])) if match else {}


def replaced(lines: list[str], number: int, new: list[str]) -> str:
    return "\n".join([*lines[:number], *new, *lines[number + 1 :]])


def depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def word(name: str) -> str:
    return re.escape(name) + r"(?!\w)"


def forwarded(lines: list[str], number: int, result: str, operand: str) -> str:
    """Removes an op and forwards its operand to later uses in its block."""
    end = number + 1
    while end < len(lines) and depth(lines[end]) >= depth(lines[number]):
        end += 1
    used = [re.sub(word(result), operand, line) for line in lines[number + 1 : end]]
    return "\n".join([*lines[:number], *used, *lines[end:]])


def without_waiting(line: str) -> str:
    return re.sub(r"\](?: pending \d+)?", "] again", line, count=1)


def by_warp(line: str) -> str:
    return re.sub(r"(\](?: pending \d+)?)", r"\1 by_warp", line, count=1)


def waits(lines: list[str], number: int) -> list[int]:
    """The lines of waits for products, of which this is one, that stand together and leave as many pending: each one
    waits for what all of them need."""
    kind = re.compile(r" = kgpu\.mma_wait .* pending (\d)")
    pending = [match and match[1] for match in map(kind.search, lines)]
    if pending[number] is None:
        return [number]
    begin, end = number, number + 1
    while pending[begin - 1] == pending[number]:
        begin -= 1
    while pending[end] == pending[number]:
        end += 1
    return list(range(begin, end))


def around(lines: list[str], number: int) -> int | None:
    """The header of the loop whose body contains a line."""
    for i in range(number - 1, -1, -1):
        if lines[i].strip() and depth(lines[i]) < depth(lines[number]):
            return i if LOOP.match(lines[i]) else None
    return None


def elsewhere(lines: list[str], number: int) -> bool:
    """Whether a tile reaches global memory through an allocation: kiln-verify-barriers judges that. Or whether it
    replaces what was received: no step of the channel depends on that."""
    if match := re.search(r"local_store .*, (%\w+)(?:#\d+)? :", lines[number]):
        return any(re.match(rf" *{word(match[1])}(:\d+)? = kgpu\.(alloc|receive)", line) for line in lines)
    return "copy_out_wait" in lines[number] and any("local_store" in line for line in lines[number + 1 : number + 3])


def mutants(kernel: str) -> Iterator[tuple[str, str]]:
    lines = joined(kernel)
    for number, line in enumerate(lines):
        where = f"line {number + 1}: {line.strip()}"
        if (DELETED.search(line) or ALONE.match(line)) and not elsewhere(lines, number):
            yield f"without {where}", replaced(lines, number, [])
        if DOUBLED.match(line):
            yield f"twice {where}", replaced(lines, number, [line, line])
        together = waits(lines, number)
        if (match := FORWARDED.match(line)) and number == together[0]:
            _, result, op, operand = match.groups()
            without = lines
            for i in reversed(together):
                _, one, _, of = FORWARDED.match(without[i]).groups()
                without = forwarded(without, i, one, of).split("\n")
            yield f"without {where}", "\n".join(without)
            if op == "advance":
                first = line.replace(result + " =", "%between =")
                second = re.sub(word(operand), "%between", line)
                yield f"twice {where}", replaced(lines, number, [first, second])
        if match := GIVEN.match(line):
            # A slot that is held may be received again any number of times, but not for the first time.
            if "] again" in line:
                first = re.sub(r"\] again( unless %\w+)?", "]", line)
                yield f"for the first time {where}", replaced(lines, number, [first])
                if "] again unless" in line:
                    always = re.sub(r"\] again unless %\w+", "] again", line)
                    yield f"without waiting {where}", replaced(lines, number, [always])
            else:
                again = line.replace(match[2], "%again_of", 1)
                yield f"twice {where}", replaced(lines, number, [line, again])
                if match[4] == "receive":
                    yield f"without waiting {where}", replaced(lines, number, [without_waiting(line)])
                # Where warps may wait for themselves alone, they do so already.
                if match[4] == "receive" and "by_warp" not in kernel and set(COMPLETION.findall(kernel)) == {"groups"}:
                    yield f"waiting for each warp alone {where}", replaced(lines, number, [by_warp(line)])
            head = around(lines, number)
            if head is not None and match[6] in inits(lines[head]):
                # Names are local to a region: in the enclosing region this one may name something else.
                moved = line.replace(f"[{match[6]}]", f"[{inits(lines[head])[match[6]]}]")
                moved = moved.replace(match[2], "%early", 1)
                rest = forwarded(lines, number, match[2], "%early").split("\n")[number:]
                yield f"in front of its loop {where}", "\n".join([*lines[:head], moved, *lines[head:number], *rest])
        if (match := re.search(r"pending (\d)", line)) and number == together[0]:
            more = f"pending {int(match[1]) + 1}"
            changed = [one.replace(match[0], more) if i in together else one for i, one in enumerate(lines)]
            yield f"one more pending in {where}", "\n".join(changed)
        if "copy_out_wait read 0" in line and not elsewhere(lines, number):
            yield f"one more pending in {where}", replaced(lines, number, [line.replace("read 0", "read 1")])
        if match := re.search(r" when %\w+", line):
            yield f"always {where}", replaced(lines, number, [line.replace(match[0], "")])
        # A cursor that starts over for each program instance.
        if "iter_args" in line and "%c1 = %c)" in line.replace(",", ")"):
            start = re.sub(f"%c1 = {word('%c')}", "%c1 = %c0", line)
            yield f"not carried on {where}", replaced(lines, number, [start])
        for what in ("fillers", "readers"):
            if match := re.search(rf"{what} (\d+)", line):
                # Outside roles, the number of warps comes from the module.
                if "kgpu.roles" in kernel:
                    yield f"more {what} in {where}", replaced(lines, number, [line.replace(match[0], f"{what} 16")])
        for before, behind in ORDERED:
            if f"kgpu.{before}" in line and number + 1 < len(lines) and f"kgpu.{behind}" in lines[number + 1]:
                first, last = together[0], together[-1] + 1
                swapped = [*lines[:first], lines[last], *lines[first:last], *lines[last + 1 :]]
                yield f"in the other order {where}", "\n".join(swapped)


def run(text: str, *flags: str) -> tuple[bool, str]:
    done = subprocess.run(["kiln-opt", *flags, "-"], input=text, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


def judge(mutant: tuple[str, str]) -> tuple[str, str]:
    what, text = mutant
    legal, said = run(text)
    if not legal:
        held = "kgpu.acquire" in what and "expected memory acquired from" in said
        held |= "in the other order" in what and "does not dominate" in said
        held |= "without waiting" in what and "expected a channel with mbarriers" in said
        return ("held" if held else "illegal"), f"{what}: {said.splitlines()[0]}"
    accepted, said = run(text, "--kiln-verify-channels")
    first = next((line for line in said.splitlines() if "error:" in line), "no message")
    return ("accepted" if accepted else "refused" if "error:" in said else "crashed"), f"{what}: {first}"


def main() -> int:
    counts: dict[str, int] = {}
    text = sys.stdin.read() if sys.argv[1] == "-" else Path(sys.argv[1]).read_text()
    for kernel in text.split("// -----\n"):
        accepted, said = run(kernel, "--kiln-verify-channels")
        if not accepted:
            print(f"a kernel is refused as it is: {said}")
            return 1
        name = re.search(r"func\.func @(\w+)", kernel)[1]
        with ThreadPoolExecutor(2) as pool:
            for verdict, text in pool.map(judge, mutants(kernel)):
                counts[verdict] = counts.get(verdict, 0) + 1
                if verdict not in ("refused", "held") or "-v" in sys.argv:
                    print(f"@{name}: {verdict}: {text}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 0 if set(counts) <= {"refused", "held"} else 1


if __name__ == "__main__":
    sys.exit(main())

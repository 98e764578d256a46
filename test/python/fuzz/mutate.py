"""Damaged .mlir files for kiln-opt, which must reject or compile each of them and never die of a signal.

    python mutate.py --seed S --first N --number M [--kiln-opt PATH]

The inputs are the modules of the lit tests, one at a time, with tokens and lines deleted, duplicated, swapped, or
copied from another test, and with numbers and types replaced. They run through the passes of the test they come
from.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[3]
BATCH = 25
SECONDS = 120  # for a batch; a damaged program that takes longer gets no verdict
MEMORY = 8 << 30

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[%@#!^]?[\w.$]+|\s+|->|::|.', re.S)
NUMBERS = ["0", "1", "-1", "2", "3", "7", "16", "64", "1000", "65536", "2147483647", "2147483648", "4294967296",
           "-9223372036854775808", "9223372036854775807", "18446744073709551616", "1.0", "0x7FC00000"]  # fmt: skip
TYPES = ["i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN", "index", "none", "i128", "f80",
         "tensor<f32>", "tensor<0xf32>", "tensor<4x?xf32>", "tensor<16xi1>", "tensor<16x16xf16>", "vector<4xf32>",
         "!tile.ptr<f32>", "!llvm.ptr", "memref<4xf32>", "tensor<16x!tile.ptr<f32>>"]  # fmt: skip


# Complete pipelines down to code. Half of the mutants run through these instead of their test's passes.
WAYS = [
    tuple(f"--kiln-{name}" for name in names)
    for names in (
        ("set-target=target=cpu-avx2", "tile-pipeline", "cpu-pipeline", "llvm-pipeline"),
        ("set-target=target=sm_90a", "tile-pipeline", "kgpu-pipeline", "thread-pipeline", "llvm-pipeline"),
        ("set-target=target=sm_80", "tile-pipeline", "kgpu-pipeline", "thread-pipeline"),
    )
]


class Source(NamedTuple):
    """One module of a test, and the kiln-opt options that the test uses."""

    path: str
    options: tuple[str, ...]
    text: str


class Mutant(NamedTuple):
    number: int
    source: Source
    text: str


def sources() -> list[Source]:
    found = []
    for path in sorted((ROOT / "test").rglob("*.mlir")):
        text = path.read_text()
        for line in re.findall(r"// RUN: .*?kiln-opt(.*)", text.replace("\\\n// RUN:", " ")):
            words = line.split("|")[0].split(">")[0].split("2&")[0].split()
            plain = [
                w for w in words if w.startswith("-") and w != "-o" and not re.search("verify-diag|split-input|%|'", w)
            ]
            for piece in re.split(r"^// -----.*$", text, flags=re.M):
                body = "\n".join(one for one in piece.splitlines() if not re.match(r"\s*//", one))
                # Tests of invalid IR are rejected anyway: skip two thirds of them.
                if body.strip() and not ("invalid" in path.name and len(body) % 3):
                    found.append(Source(str(path.relative_to(ROOT)), tuple(plain), body))
    return found


def mutate(rng: random.Random, source: Source, others: list[Source]) -> str:
    text = source.text
    for _ in range(rng.choice([1, 1, 1, 1, 1, 2, 3])):
        lines = text.splitlines()
        at = rng.randrange(len(lines))
        kind = rng.choice([0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 9, 9, 9, 9, 10, 10, 10, 10, 10, 11, 11])
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        elif kind == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            donor = rng.choice(others).text.splitlines()
            lines.insert(at, rng.choice(donor))
        if kind <= 3:
            text = "\n".join(lines)
        elif kind == 10:  # replace one number everywhere
            numbers = sorted(set(re.findall(r"(?<![\w.%#-])\d+(?=[x\s\],:>})])", text)))
            if numbers:
                text = re.sub(rf"(?<![\w.%#-]){rng.choice(numbers)}(?=[x\s\],:>}})])", rng.choice(NUMBERS[:12]), text)
        elif kind == 11:  # replace one type everywhere
            kinds = sorted(set(re.findall(r"\b(?:[if]\d+|bf16|index)\b", text)))
            if kinds:
                text = re.sub(rf"\b{rng.choice(kinds)}\b", rng.choice(TYPES[:12]), text)
        else:
            tokens = TOKEN.findall(text)
            text = "".join(_mutate_tokens(rng, kind, tokens))
        if not text.strip():
            return source.text
    return text


def _mutate_tokens(rng: random.Random, kind: int, tokens: list[str]) -> list[str]:
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    if not words:
        return tokens
    at = rng.choice(words)
    if kind == 4:
        tokens[at] = ""
    elif kind == 5:
        tokens[at] *= 2
    elif kind == 6:
        other = rng.choice(words)
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind == 7:
        numbers = [i for i in words if re.fullmatch(r"\d[\d.]*|\d+(x\d+)*x\w+", tokens[i])]
        if numbers:
            i = rng.choice(numbers)
            digits = list(re.finditer(r"\d+", tokens[i]))
            one = rng.choice(digits)
            tokens[i] = tokens[i][: one.start()] + rng.choice(NUMBERS) + tokens[i][one.end() :]
    elif kind == 8:
        kinds = [i for i in words if tokens[i] in TYPES or re.fullmatch(r"(?:\d+x)+\w+", tokens[i])]
        if kinds:
            i = rng.choice(kinds)
            dimensions = re.match(r"(?:\d+x)*", tokens[i]).group()
            tokens[i] = dimensions + rng.choice(TYPES) if rng.random() < 0.7 else rng.choice(TYPES)
    else:
        names = [i for i in words if tokens[i][0] in "%@"]
        if names:
            tokens[rng.choice(names)] = tokens[rng.choice(names)]
    return tokens


def mutants(seed: str, first: int, number: int) -> Iterator[Mutant]:
    """The mutants [first, first + number) of a seed, each independent of the others."""
    all_sources = sources()
    for index in range(first, first + number):
        rng = random.Random(f"{seed}:{index}")
        source = rng.choice(all_sources)
        if rng.random() < 0.5:
            source = source._replace(options=rng.choice(WAYS))
        yield Mutant(index, source, mutate(rng, source, all_sources))


def returncode(kiln_opt: str, options: tuple[str, ...], texts: list[str]) -> int | None:
    """The exit status of kiln-opt; None if it takes too long."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    command = [kiln_opt, "-", "-split-input-file", "-mlir-disable-threading", *options, "-o", "/dev/null"]
    try:
        run = subprocess.run(
            command, input="\n// -----\n".join(texts), text=True, capture_output=True, timeout=SECONDS, preexec_fn=limit
        )
    except subprocess.TimeoutExpired:
        return None
    return run.returncode


def ends_well(kiln_opt: str, options: tuple[str, ...], texts: list[str]) -> bool:
    code = returncode(kiln_opt, options, texts)
    return code is None or code >= 0


def passes(kiln_opt: str, options: tuple[str, ...], text: str) -> bool:
    return returncode(kiln_opt, options, [text]) == 0


def find_crashes(kiln_opt: str, batch: list[Mutant]) -> list[Mutant]:
    """The mutants of a batch (with one set of options) that kill kiln-opt by a signal."""
    if ends_well(kiln_opt, batch[0].source.options, [mutant.text for mutant in batch]):
        return []
    if len(batch) == 1:
        return batch
    half = len(batch) // 2
    return find_crashes(kiln_opt, batch[:half]) + find_crashes(kiln_opt, batch[half:])


def crashes(kiln_opt: str, seed: str, first: int, number: int) -> list[Mutant]:
    by_options: dict[tuple[str, ...], list[Mutant]] = {}
    for mutant in mutants(seed, first, number):
        by_options.setdefault(mutant.source.options, []).append(mutant)
    found = []
    for group in by_options.values():
        for at in range(0, len(group), BATCH):
            found += find_crashes(kiln_opt, group[at : at + BATCH])
    return found


def describe(mutant: Mutant) -> str:
    """The command that runs it again by hand."""
    return (
        f"// mutant {mutant.number} of {mutant.source.path}: kiln-opt {' '.join(mutant.source.options)}\n{mutant.text}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--kiln-opt", default=str(ROOT / "build/compiler/tools/kiln-opt"))
    parser.add_argument("--out", type=pathlib.Path, help="a folder for the mutants that crash")
    given = parser.parse_args()
    found = crashes(given.kiln_opt, given.seed, given.first, given.number)
    for mutant in found:
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"{mutant.number}.mlir").write_text(describe(mutant) + "\n")
        else:
            print(describe(mutant))
    print(f"{given.number} mutants, {len(found)} end kiln-opt by a signal")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

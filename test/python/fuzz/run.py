"""Checks random programs: `python test/python/fuzz/run.py --programs 2000 --seed 7 [--seconds 60]`.

A program is named SEED:NUMBER; `--first NUMBER --programs 1 --show` shows one. Exits with 1 if any fails. Batches run
in processes of their own, so that a crash or a hang of one program ends one batch and is reported as that program's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.check import Failure, check
from fuzz.generate import generate
from fuzz.kinds import Undefined
from fuzz.program import Program, render
from fuzz.reduce import reduce

BATCH = 100
HANG = 120.0  # seconds without a new program
FOUND = 10  # how a batch exits that reports failures; an exception of the fuzzer's own would be 1


@dataclass
class Report:
    """A failing program, as it is shown."""

    name: str
    message: str
    text: str


def describe(program: Program) -> str:
    shapes = ", ".join(f"{b.name}: {b.kind}[{b.data.size}]" for b in program.buffers)
    values = ", ".join(f"{n}={v!r}" for n, v in {**program.scalars, **program.constants}.items())
    return f"grid {program.grid}, fp fusion {program.fused}, {shapes}{'; ' if values else ''}{values}"


def report(name: str, program: Program, failure: Failure, reducing: bool, seconds: float = 20.0) -> Report:
    parts = ["program:", render(program), describe(program)]
    if reducing:
        # Under the checks only where that is what failed; they cost more than the launch.
        under = failure.way == "check" or "{" in failure.message
        small = reduce(program, lambda p: failure.same(check(p, checks=under)), seconds)
        left = check(small, checks=under) or failure
        parts += ["reduced:", render(small), describe(small), left.message]
    return Report(name, failure.message, "\n".join(parts))


def run_here(seed: str, numbers: range, reducing: bool, end: float, seen: set[str] | None = None) -> list[Report]:
    """Checks programs in this process. Says on stdout which one is next, for who watches a batch."""
    reports = []
    for number in numbers:
        if time.monotonic() > end:
            break
        name = f"{seed}:{number}"
        print(f"@ {number}", flush=True)
        try:
            program = generate(name)
        except Undefined:
            continue
        failure = check(program, seen)
        if failure is not None:
            reports.append(report(name, program, failure, reducing))
            show(reports[-1])
    return reports


def show(found: Report) -> None:
    print(f"FAILED {found.name}: {found.message}\n{found.text}\n", flush=True)


def run_batch(seed: str, first: int, count: int, reducing: bool = True, seconds: float = 1e9) -> tuple[int, str]:
    """Checks programs in another process: how many failed, and what it printed about them."""
    failed, output, last = 0, [], first + count
    while first < last:
        command = [sys.executable, str(Path(__file__).resolve()), "--here", "--seed", seed, "--first", str(first),
                   "--programs", str(last - first), "--seconds", str(seconds)]  # fmt: skip
        if not reducing:
            command.append("--no-reduce")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        at, lines, ended = _watch(process)
        output += lines
        failed += sum(line.startswith("FAILED ") for line in lines)
        if ended in (0, FOUND):
            break
        failed += 1
        how = "hangs" if ended is None else f"ends the process ({ended})"
        output.append(f"FAILED {seed}:{at}: {how}\n{render(generate(f'{seed}:{at}'))}\n")
        first = at + 1
    return failed, "".join(line if line.endswith("\n") else line + "\n" for line in output)


def _watch(process: subprocess.Popen[str]) -> tuple[int, list[str], int | None]:
    """The last program a batch began, its output, and its exit status (None if it had to be ended)."""
    import selectors

    assert process.stdout is not None
    at, lines, pending = 0, [], ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(HANG):
                process.kill()
                process.wait()
                return at, lines, None
            chunk = os.read(process.stdout.fileno(), 1 << 16).decode()
            if not chunk:
                return at, lines, process.wait()
            *whole, pending = (pending + chunk).split("\n")
            for line in whole:
                if line.startswith("@ "):
                    at = int(line[2:])
                else:
                    lines.append(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--no-reduce", action="store_true", help="do not make failing programs small")
    parser.add_argument("--show", action="store_true", help="print the programs; run nothing")
    parser.add_argument("--here", action="store_true", help="check in this process")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    numbers = range(options.first, options.first + options.programs)
    if options.show:
        for number in numbers:
            program = generate(f"{options.seed}:{number}")
            print(f"{render(program)}\n{describe(program)}\n")
        return 0
    if options.here:
        return FOUND if run_here(options.seed, numbers, not options.no_reduce, end) else 0
    failed, done = 0, 0
    for first in range(options.first, options.first + options.programs, BATCH):
        left = end - time.monotonic()
        if left < 0:
            break
        count = min(BATCH, numbers.stop - first)
        wrong, text = run_batch(options.seed, first, count, not options.no_reduce, left)
        failed, done = failed + wrong, done + count
        if text:
            print(text, flush=True)
    print(f"{done} programs of seed {options.seed}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks random programs: `python test/python/fuzz/run.py --programs 2000 --seed 7 [--seconds 60]`.

A program is named SEED:NUMBER; `--first NUMBER --programs 1 --show` shows one. Exits with 1 if any fails. Batches run
in processes of their own, `--jobs` of them side by side, so that a crash or a hang of one program ends one batch and is
reported as that program's. With KILN_TARGET=cuda KILN_STAGE_ARRAYS=1 programs run on a GPU; those it has too little of
something for are counted as refused.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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
REDUCED = 3  # failures of a batch that are made small
ENDED = 5  # processes of a batch that programs may end before it is given up
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
    reports: list[Report] = []
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
        if failure is not None and failure.way == "refused":
            print(f"REFUSED {name}: {failure.message.splitlines()[0]}", flush=True)
        elif failure is not None:
            small = reducing and len(reports) < REDUCED
            reports.append(report(name, program, failure, small, min(20.0, max(0.0, end - time.monotonic()))))
            show(reports[-1])
    return reports


def show(found: Report) -> None:
    print(f"FAILED {found.name}: {found.message}\n{found.text}\n", flush=True)


@dataclass
class Batch:
    """What became of a batch: how many programs ran, failed, were refused, and what it printed about failures."""

    done: int = 0
    failed: int = 0
    refused: int = 0
    output: str = ""


def run_batch(seed: str, first: int, count: int, reducing: bool = True, seconds: float = 1e9) -> Batch:
    """Checks programs in another process."""
    batch, output, last, end = Batch(), [], first + count, time.monotonic() + seconds
    ended_early = 0
    while first < last:
        command = [sys.executable, str(Path(__file__).resolve()), "--here", "--seed", seed, "--first", str(first),
                   "--programs", str(last - first), "--seconds", str(end - time.monotonic())]  # fmt: skip
        if not reducing:
            command.append("--no-reduce")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        begun, lines, ended = _watch(process)
        batch.done += len(begun)
        batch.refused += sum(line.startswith("REFUSED ") for line in lines)
        batch.failed += sum(line.startswith("FAILED ") for line in lines)
        output += [line for line in lines if not line.startswith("REFUSED ")]
        if ended in (0, FOUND):
            break
        batch.failed += 1
        how = "hangs" if ended is None else f"ends the process ({ended})"
        if not begun:
            # It is not a program's fault, and the next process would end alike.
            output.append(f"FAILED {seed}:{first}: {how} before it begins\n")
            break
        output.append(f"FAILED {seed}:{begun[-1]}: {how}\n{_text_of(f'{seed}:{begun[-1]}')}\n")
        first = begun[-1] + 1
        ended_early += 1
        if ended_early == ENDED and first < last:
            rest = f"{seed}:{first} to {last - 1}"
            output.append(f"FAILED {rest}: given up, {ENDED} programs before them ended the process\n")
            batch.failed += 1
            break
    batch.output = "".join(line if line.endswith("\n") else line + "\n" for line in output)
    return batch


def _text_of(name: str) -> str:
    try:
        return render(generate(name))
    except Undefined:
        return "(a program without a meaning)"


def _watch(process: subprocess.Popen[str]) -> tuple[list[int], list[str], int | None]:
    """The programs a batch began, its output, and its exit status (None if it had to be ended)."""
    import selectors

    assert process.stdout is not None
    begun: list[int] = []
    lines: list[str] = []
    pending = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(HANG):
                process.kill()
                process.wait()
                return begun, lines, None
            chunk = os.read(process.stdout.fileno(), 1 << 16).decode()
            if not chunk:
                return begun, lines, process.wait()
            *whole, pending = (pending + chunk).split("\n")
            for line in whole:
                if line.startswith("@ "):
                    begun.append(int(line[2:]))
                else:
                    lines.append(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="batches side by side")
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
    total = run_batches(options.seed, numbers, options.jobs, not options.no_reduce, end)
    refused = f", {total.refused} refused" if total.refused else ""
    ended = f" (time is up: {len(numbers)} were asked for)" if total.done < len(numbers) else ""
    print(f"{total.done} programs of seed {options.seed}, {total.failed} failed{refused}{ended}")
    return 1 if total.failed else 0


def run_batches(seed: str, numbers: range, jobs: int, reducing: bool, end: float) -> Batch:
    """All of them, several processes at a time. What a batch found is printed when it has ended."""
    total, lock = Batch(), threading.Lock()

    def one(first: int) -> None:
        left = end - time.monotonic()
        if left < 0:
            return
        batch = run_batch(seed, first, min(BATCH, numbers.stop - first), reducing, left)
        with lock:
            total.done += batch.done
            total.failed += batch.failed
            total.refused += batch.refused
            if batch.output:
                print(batch.output, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, range(numbers.start, numbers.stop, BATCH)))
    return total


if __name__ == "__main__":
    sys.exit(main())

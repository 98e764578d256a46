"""Checks random programs: `python test/python/fuzz/run.py --programs 2000 --seed 7 [--seconds 60]`.

A program is named SEED:NUMBER; `--first NUMBER --programs 1 --show` shows one. `--programs N` asks for N programs that
run and are compared. Programs are replaced by others if they are undefined, if they need more of some resource than the
GPU has, or if they are left out because ptxas takes minutes for tiles of hundreds of elements per thread (a third of
what is drawn). With `--first` exactly those N numbers are tried. Exits with 1 if any program fails and with 3 if time
runs out before N have run. Batches run in separate processes, `--jobs` of them in parallel, so that a crash or hang
ends only one batch and is reported for the program that caused it. With KILN_TARGET=cuda KILN_STAGE_ARRAYS=1 programs
run on a GPU; `--compile` with KILN_TARGET=sm_90a, for example, only compiles them and needs no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.check import Failure, check, compile_only
from fuzz.generate import generate
from fuzz.kinds import Undefined
from fuzz.program import Program, render
from fuzz.reduce import reduce

BATCH = 100
HANG = 300.0  # seconds without a new program; ptxas alone may take a hundred
GRACE = 3.0  # seconds that a program may still run after time is up
REDUCED = 3  # failures of a batch that are shrunk
ENDED = 5  # child processes of a batch that programs may kill before the batch is given up
FOUND = 10  # exit status of a batch that reports failures; an exception of the fuzzer itself would give 1
SHORT = 3  # exit status of the command if fewer programs ran than were asked for
DRAWN = 2  # most numbers tried for each program asked for


def describe(program: Program) -> str:
    shapes = ", ".join(f"{b.name}: {b.kind}[{b.data.size}]" for b in program.buffers)
    values = ", ".join(f"{n}={v!r}" for n, v in {**program.scalars, **program.constants}.items())
    return f"grid {program.grid}, fp fusion {program.fused}, {shapes}{'; ' if values else ''}{values}"


def reduced(program: Program, failure: Failure, compiling: bool, seconds: float) -> str:
    """A failing program, shrunk, as text to show."""
    # Run under the checks only if a check failed; they cost more than the launch.
    under = failure.way == "check" or "{" in failure.message
    again = compile_only if compiling else functools.partial(check, checks=under)
    small = reduce(program, lambda p: failure.same(again(p)), seconds)
    left = again(small) or failure
    return "\n".join(["reduced:", render(small), describe(small), left.message])


def run_here(seed: str, numbers: range, reducing: bool, compiling: bool, end: float) -> int:
    """Checks programs in this process and returns how many fail. Reports each on stdout, for the process that watches
    the batch."""
    failed = 0
    for number in numbers:
        if time.monotonic() > end:
            break
        name = f"{seed}:{number}"
        print(f"@ {number}", flush=True)
        try:
            program = generate(name)
            failure = compile_only(program) if compiling else check(program)
        except Undefined as reason:
            print(f"UNDEFINED {name}: {reason}", flush=True)
            continue
        if failure is None:
            continue
        if not failure.is_fault:
            print(f"{failure.way.upper()} {name}: {failure.message.splitlines()[0]}", flush=True)
            continue
        failed += 1
        # Print it before shrinking it: that may be cut off.
        print(f"FAILED {name}: {failure.message}\nprogram:\n{render(program)}\n{describe(program)}", flush=True)
        if reducing and failed <= REDUCED:
            print(reduced(program, failure, compiling, min(20.0, max(0.0, end - time.monotonic()))), flush=True)
        print(flush=True)
    return failed


@dataclass
class Batch:
    """Counts of programs: run and compared (or failed in the attempt), failed, refused by the device, left out,
    undefined; and the output about failures."""

    ran: int = 0
    failed: int = 0
    refused: int = 0
    left_out: int = 0
    undefined: int = 0
    output: str = ""

    def add(self, other: Batch) -> None:
        self.ran += other.ran
        self.failed += other.failed
        self.refused += other.refused
        self.left_out += other.left_out
        self.undefined += other.undefined
        self.output += other.output

    @property
    def drawn(self) -> int:
        return self.ran + self.refused + self.left_out + self.undefined

    def summary(self, seed: str, asked: int) -> str:
        ran = f"{self.ran} programs" if self.ran >= asked else f"{self.ran} of {asked} programs"
        others = f"{self.left_out} left out, {self.refused} refused, {self.undefined} without a meaning"
        return f"{ran} of seed {seed} ran, {self.failed} failed ({others})"


def run_batch(seed: str, first: int, count: int, flags: Sequence[str] = (), seconds: float = 1e9) -> Batch:
    """Checks programs in another process, which gets the same flags as this command."""
    batch, last, end = Batch(), first + count, time.monotonic() + seconds
    ended_early = 0
    while first < last and time.monotonic() < end:
        command = [sys.executable, str(Path(__file__).resolve()), "--here", "--seed", seed, "--first", str(first),
                   "--programs", str(last - first), "--until", str(time.time() + end - time.monotonic()),
                   *flags]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watched = watch(process, end)
        batch.add(tally(watched))
        if watched.cut and watched.begun:
            batch.output += f"{seed}:{watched.begun[-1]} was still running when time was up\n"
        if watched.status in (0, FOUND) or watched.cut:
            break
        how = "hangs" if watched.status is None else f"ends the process ({watched.status})"
        if not watched.begun:
            # No program is at fault, and the next process would end the same way.
            batch.add(Batch(failed=1, output=f"FAILED {seed}:{first}: {how} before it begins\n\n"))
            break
        culprit = f"{seed}:{watched.begun[-1]}"
        if any(line.startswith(f"FAILED {culprit}:") for line in watched.lines):
            batch.output += f"{culprit} {how} while it is made small\n\n"
        else:
            batch.add(Batch(failed=1, output=f"FAILED {culprit}: {how}\n{_text_of(culprit)}\n\n"))
        first = watched.begun[-1] + 1
        ended_early += 1
        if ended_early == ENDED and first < last:
            why = f"given up, {ENDED} programs before them ended the process"
            batch.add(Batch(failed=1, output=f"FAILED {seed}:{first} to {last - 1}: {why}\n\n"))
            break
    return batch


def _text_of(name: str) -> str:
    try:
        return render(generate(name))
    except Undefined:
        return "(a program without a meaning)"


@dataclass
class Watched:
    """What a process reported: the programs it began, its output, and its exit status (None if it was killed: `cut`
    says that time was up, otherwise it hung)."""

    begun: list[int]
    lines: list[str]
    status: int | None
    cut: bool = False


def watch(process: subprocess.Popen[str], end: float) -> Watched:
    """Reads the output of a batch until it ends, hangs, or is still running a moment after time is up."""
    import selectors

    assert process.stdout is not None
    found = Watched([], [], None)
    pending, heard = "", time.monotonic()
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left = min(heard + HANG, end + GRACE) - time.monotonic()
            if left <= 0 or not selector.select(left):
                found.cut = time.monotonic() >= end + GRACE
                _kill(process)
                return found
            chunk = os.read(process.stdout.fileno(), 1 << 16).decode(errors="replace")
            if not chunk:
                found.status = process.wait()
                return found
            heard = time.monotonic()
            *whole, pending = (pending + chunk).split("\n")
            for line in whole:
                if line.startswith("@ "):
                    found.begun.append(int(line[2:]))
                else:
                    found.lines.append(line)


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)  # a process that waits for a device takes a while


_TOLD = re.compile(r"(FAILED|REFUSED|LEFT OUT|UNDEFINED) \S*:(\d+): ")


def tally(watched: Watched) -> Batch:
    """Counts the programs of a process. The one running when time was up is not counted, unless it failed."""
    told = {int(match[2]): match[1] for line in watched.lines if (match := _TOLD.match(line))}
    counts = Counter(told.get(number, "ran") for number in watched.begun)
    if watched.cut and watched.begun and watched.begun[-1] not in told:
        counts["ran"] -= 1
    kept = (line for line in watched.lines if not line.startswith(("REFUSED ", "LEFT OUT ", "UNDEFINED ")))
    return Batch(counts["ran"] + counts["FAILED"], counts["FAILED"], counts["REFUSED"], counts["LEFT OUT"],
                 counts["UNDEFINED"], "".join(line + "\n" for line in kept))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200, help="how many must run (default: 200)")
    parser.add_argument("--seed", default="0")
    parser.add_argument(
        "--first",
        type=int,
        metavar="NUMBER",
        help="try exactly the numbers from NUMBER on (default: from 0, with replacements)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="batches run in parallel")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)  # --seconds as a point in time
    parser.add_argument("--no-reduce", action="store_true", help="do not shrink failing programs")
    parser.add_argument("--compile", action="store_true", help="compile for the GPU in KILN_TARGET; launch nothing")
    parser.add_argument("--show", action="store_true", help="print the programs; run nothing")
    parser.add_argument("--here", action="store_true", help="check in this process")
    options = parser.parse_args()
    seconds = options.seconds if options.until is None else options.until - time.time()
    end = time.monotonic() + seconds
    first = options.first or 0
    numbers = range(first, first + options.programs)
    if options.show:
        for number in numbers:
            program = generate(f"{options.seed}:{number}")
            print(f"{render(program)}\n{describe(program)}\n")
        return 0
    if options.here:
        return FOUND if run_here(options.seed, numbers, not options.no_reduce, options.compile, end) else 0
    flags = [f"--{name.replace('_', '-')}" for name in ("no_reduce", "compile") if getattr(options, name)]
    total, asked = Batch(), options.programs
    run_batches(options.seed, numbers, options.jobs, flags, end, total)
    limit = DRAWN * asked + BATCH
    while options.first is None and total.ran < asked and numbers.stop < limit and time.monotonic() < end:
        # Draw replacements for those that did not run, and more of them, as the same share will not run either.
        more = min(-(-(asked - total.ran) * total.drawn // max(1, total.ran)), limit - numbers.stop)
        numbers = range(numbers.stop, numbers.stop + more)
        run_batches(options.seed, numbers, options.jobs, flags, end, total)
    # Programs asked for by number may be refused; what is missing otherwise was never drawn.
    missing = total.ran < asked if options.first is None else total.drawn < asked
    why = "time is up" if time.monotonic() >= end else "given up"
    print(total.summary(options.seed, asked) + (f": {why} before all have run" if missing else ""))
    return 1 if total.failed else SHORT if missing else 0


def run_batches(seed: str, numbers: range, jobs: int, flags: Sequence[str], end: float, total: Batch) -> None:
    """Runs all batches, several processes at a time, and adds their counts to `total`. Prints the output of a batch
    when it ends."""
    lock = threading.Lock()
    size = max(1, min(BATCH, -(-len(numbers) // jobs)))

    def one(first: int) -> None:
        left = end - time.monotonic()
        if left < 0:
            return
        batch = run_batch(seed, first, min(size, numbers.stop - first), flags, left)
        with lock:
            total.add(batch)
            if batch.output:
                print(batch.output, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, range(numbers.start, numbers.stop, size)))


if __name__ == "__main__":
    sys.exit(main())

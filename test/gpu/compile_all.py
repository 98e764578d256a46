"""Random tile programs compiled for a GPU that need not be there: `python test/gpu/compile_all.py --programs 300`.

Each goes from Python to machine code (or to PTX where there is no ptxas) for `--target`, with a number of warps and now
and then a cluster drawn from its name. A program the machine has too little of something for is refused, which is
counted and no failure; everything else that ends a compile is shown with the program made small. Batches run in
processes of their own: a crash costs one program. Exits with 1 if any fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from fuzz.check import Failure, kernel_of, launch_options
from fuzz.generate import generate
from fuzz.kinds import Undefined
from fuzz.program import Program, render
from fuzz.reduce import reduce
from fuzz.run import describe

BATCH = 50
FOUND = 10  # how a batch exits that reports failures
REDUCING_SECONDS = 20.0


def compile_program(program: Program, options: dict[str, Any]) -> Any:
    import kiln.language as kl

    arguments = [*(getattr(kl, b.kind.name) for b in program.buffers), *program.scalars.values()]
    kernel = kernel_of(render(program))
    return kernel.run(
        *arguments, grid=program.grid, warmup=True, enable_fp_fusion=program.fused, **program.constants, **options
    )


def check(program: Program, options: dict[str, Any]) -> Failure | None:
    from kiln import errors

    try:
        compile_program(program, options)
    except errors.ResourceError as problem:
        return Failure("refused", str(problem))
    except Exception as problem:
        return Failure("error", f"{type(problem).__name__}: {problem}")
    return None


def run_here(seed: str, numbers: range, switches: dict[str, str], reducing: bool, end: float) -> int:
    """Says on stdout which program is next, and a word about each that does not compile."""
    from kiln import knobs

    failed = 0
    with knobs.scope(**switches):
        for number in numbers:
            if time.monotonic() > end:
                break
            name = f"{seed}:{number}"
            print(f"@ {number}", flush=True)
            try:
                program = generate(name)
            except Undefined:
                continue
            options = launch_options(name, switches["target"])
            failure = check(program, options)
            if failure is None:
                continue
            if failure.way == "refused":
                print(f"REFUSED {name}", flush=True)
                continue
            failed += 1
            shown = program
            if reducing:
                shown = reduce(program, lambda p, o=options, f=failure: f.same(check(p, o)), REDUCING_SECONDS)
            left = check(shown, options) or failure
            print(f"FAILED {name} {options}: {failure.message}\n{render(shown)}\n{describe(shown)}\n{left.message}\n",
                  flush=True)  # fmt: skip
    return FOUND if failed else 0


def run_batch(arguments: argparse.Namespace, first: int, count: int, seconds: float) -> Counter[str]:
    """Compiles programs in another process, and in a further one from behind a program that ended it."""
    counts: Counter[str] = Counter()
    last = first + count
    while first < last and seconds > 0:
        command = [sys.executable, str(Path(__file__).resolve()), "--here", "--seed", arguments.seed,
                   "--first", str(first), "--programs", str(last - first), "--target", arguments.target,
                   "--seconds", str(seconds)]  # fmt: skip
        command += [f"--{name.replace('_', '-')}" for name in ("no_reduce", "no_assemble") if getattr(arguments, name)]
        # The generator asks what the programs are for when it is imported.
        environment = {**os.environ, "KILN_TARGET": arguments.target}
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        at = first
        for line in process.stdout.splitlines():
            if line.startswith("@ "):
                at = int(line[2:])
                counts["programs"] += 1
                continue
            if line.startswith(("FAILED ", "REFUSED ")):
                counts[line.split()[0].lower()] += 1
            if not line.startswith("REFUSED "):
                print(line, flush=True)
        if process.returncode in (0, FOUND):
            break
        counts["failed"] += 1
        print(f"FAILED {arguments.seed}:{at}: ends the process ({process.returncode})", flush=True)
        try:
            print(render(generate(f"{arguments.seed}:{at}")), flush=True)
        except Undefined:
            print(process.stdout, flush=True)
        first = at + 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--no-assemble", action="store_true", help="stop at PTX: ptxas takes most of the time")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--no-reduce", action="store_true", help="do not make failing programs small")
    parser.add_argument("--here", action="store_true", help="compile in this process")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    if arguments.here:
        numbers = range(arguments.first, arguments.first + arguments.programs)
        switches = {"target": arguments.target, **({"ptxas": "none"} if arguments.no_assemble else {})}
        return run_here(arguments.seed, numbers, switches, not arguments.no_reduce, end)
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    counts: Counter[str] = Counter()
    for first in range(arguments.first, arguments.first + arguments.programs, BATCH):
        left = end - time.monotonic()
        if left <= 0:
            break
        counts += run_batch(arguments, first, min(BATCH, arguments.first + arguments.programs - first), left)
    ended = f"{counts['refused']} refused, {counts['failed']} failed"
    print(f"{counts['programs']} programs of seed {arguments.seed} for {arguments.target}: {ended}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Everything that can be tested on a GPU, by one command: `python test/gpu/run.py [--parts A,B] [--jobs N]`.

gpu        this folder: runtime, library, math on the device
kernels    test/kernels on torch tensors, against float64
host       the tests there that are about the host; where torch is installed, also as torch differentiates (gradcheck)
language   every test of the language, of programs and of launches, its arrays staged through device memory
found      failing random programs, in their reduced form
fuzz       random programs against numpy (KILN_FUZZ_PROGRAMS, 10000 if not set, that run and are compared;
           KILN_FUZZ_SEED; KILN_FUZZ_SECONDS, 400 if not set: fewer in that time are no success, but "SHORT")
memcheck   compute-sanitizer over the kernel library; likewise racecheck, synccheck

Each part is a child process with a time limit, which takes its whole process group with it: a kernel that hangs costs
one part. A part that needs what the machine lacks says so and does not fail. The summary (`--summary FILE`) has one
line for each part; its output is in a file next to it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from conftest import reason_to_skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGED = {"KILN_TARGET": "cuda", "KILN_STAGE_ARRAYS": "1"}


@dataclass
class Part:
    name: str
    command: list[str]
    seconds: int
    environment: dict[str, str] = field(default_factory=dict)
    missing: str = ""
    short: int | None = None  # exit status of a part that did not complete in time


def sanitizer() -> str | None:
    """compute-sanitizer, if it is anywhere: on the path, in the toolkit."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    return shutil.which("compute-sanitizer") or next(
        (str(p) for home in homes if home and (p := pathlib.Path(home) / "bin" / "compute-sanitizer").exists()), None
    )


def torch_is_missing() -> str:
    """Without it these tests are those of `make test`."""
    return "" if importlib.util.find_spec("torch") else "torch is not installed"


def parts(jobs: int) -> list[Part]:
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short", "-rfE"]
    # xdist is part of the project's environment; without it the tests run one after another.
    try:
        import xdist  # noqa: F401

        pytest += ["-n", str(jobs)] if jobs > 1 else []
    except ImportError:
        pass
    tests = ROOT / "test"
    folders = [str(tests / "python" / name) for name in ("language", "programs", "runtime")]
    programs = os.environ.get("KILN_FUZZ_PROGRAMS", "10000")
    seconds = int(os.environ.get("KILN_FUZZ_SECONDS", "400"))
    found = [
        Part("gpu", [*pytest, str(tests / "gpu")], 240),
        Part("kernels", [*pytest, str(tests / "kernels"), "--device", "cuda"], 480),
        Part("host", [*pytest, "-m", "host", str(tests / "kernels")], 300, missing=torch_is_missing()),
        Part("language", [*pytest, "-m", "not bench and not fuzz", *folders], 420, STAGED),
        Part("found", [*pytest, str(tests / "python" / "fuzz" / "test_found.py")], 120, STAGED),
        # It ends by itself before its time is up, and prints failures as they happen.
        Part("fuzz", [sys.executable, str(tests / "python" / "fuzz" / "run.py"), "--programs", programs,
                      "--seed", os.environ.get("KILN_FUZZ_SEED", "0"), "--jobs", str(jobs), "--seconds", str(seconds)],
             seconds + 60, STAGED, f"no GPU: {reason_to_skip()}" if reason_to_skip() else "", short=3),
    ]  # fmt: skip
    tool = sanitizer()
    for name in ("memcheck", "racecheck", "synccheck"):
        script = [sys.executable, str(tests / "gpu" / "sanitize.py")]
        watch = [tool or "", "--tool", name, "--error-exitcode", "3", "--kernel-name", "kernel_substring=kiln_"]
        found.append(Part(name, [*watch, *script], 300, STAGED, "" if tool else "compute-sanitizer is not installed"))
    return found


def run(part: Part, folder: pathlib.Path) -> tuple[str, float, str]:
    """The verdict, the seconds, and the most informative line of the output."""
    if part.missing:
        return "skipped", 0.0, part.missing
    log = folder / f"{part.name}.log"
    start = time.monotonic()
    with log.open("w") as out:
        child = subprocess.Popen(part.command, cwd=ROOT, env={**os.environ, **part.environment}, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            code = child.wait(part.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return "TIMEOUT", time.monotonic() - start, f"longer than {part.seconds} s: {last_line(log)}"
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    about = last_line(log)
    # Without a GPU every test is skipped, which proves nothing.
    nothing = "skipped" in about and "passed" not in about
    bad = "SHORT" if code == part.short else "FAILED"
    return (bad if code else "skipped" if nothing else "ok"), time.monotonic() - start, about


def last_line(log: pathlib.Path) -> str:
    """pytest's or the sanitizer's count if there is one, else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    counts = [line for line in lines if re.search(r"\d+ (passed|failed|skipped|error)|SUMMARY:", line)]
    return (counts or lines or ["no output"])[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="", help="names, separated by commas (default: all)")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="number of parallel test processes"
    )
    parser.add_argument(
        "--summary", default=str(ROOT / "build" / "test-gpu" / "summary.txt"), help="file for the summary"
    )
    arguments = parser.parse_args()
    every = parts(arguments.jobs)
    wanted = [name for name in arguments.parts.split(",") if name] or [part.name for part in every]
    unknown = set(wanted) - {part.name for part in every}
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: expected {', '.join(part.name for part in every)}")
    summary = pathlib.Path(arguments.summary)
    summary.parent.mkdir(parents=True, exist_ok=True)
    lines, failed = [], False
    for part in every:
        if part.name not in wanted:
            continue
        verdict, seconds, about = run(part, summary.parent)
        failed |= verdict not in ("ok", "skipped")
        lines.append(f"{part.name:10} {verdict:8} {seconds:6.1f} s  {about}")
        print(lines[-1], flush=True)
        summary.write_text("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

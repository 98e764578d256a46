"""The GPU benchmarks from the command line: `kiln bench norm softmax --peers torch,quack --csv F --html F`.

Rows run in child processes, a family at a time, with a time limit per row: a child that hangs or loses its device is
killed and another continues with the next row. Beforehand, several children compile what peers cache on disk
(`--no-prepare` skips that). Results are written as they come.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import FAMILIES, PEERS, Case, select  # noqa: E402

Job = dict[str, Any]

# Seconds per row and peer with warm disk caches: a guess for `--list`; nothing else relies on it.
_SECONDS = {"kiln": 0.6, "torch": 0.3, "inductor": 1.8, "quack": 0.8, "triton": 1.2, "cuda": 0.6, "ceiling": 1.2}
_STARTING, _PREPARING = 9.0, 1.2

# The files that can be requested, and their extensions.
ENDINGS = {"csv": "csv", "json": "json", "plot": "png", "html": "html"}


def estimate(cases: Sequence[Case], peers: Sequence[str], prepare: bool) -> float:
    """Seconds that measuring these rows takes, roughly."""
    each = 0.3 + sum(_SECONDS.get(peer, 0.5) for peer in peers)
    families = len({case.family for case in cases})
    return families * _STARTING + len(cases) * (each + (_PREPARING if prepare else 0.0))


class Unusable(Exception):
    """Nothing can be measured with this interpreter or on this machine; the message says why."""


def needs_torch() -> None:
    """Raises `Unusable` without torch: a child could not get far enough to report that."""
    if importlib.util.find_spec("torch") is None:
        raise Unusable(
            f"expected an interpreter with torch (because it holds the arrays and the clock of every peer), got "
            f"{sys.executable} without it: install it there, or name an interpreter that has it, "
            f'make bench BENCH="norm" BENCH_PYTHON=python3'
        )


class Child:
    """A worker process and the events it writes; ending it ends everything it started."""

    def __init__(self, job: Job, log: Any):
        command = [sys.executable, "-u", str(HERE / "worker.py"), json.dumps(job)]
        environment = dict(os.environ)
        if job["prepare"]:
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "2"  # the children are the parallelism
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
                                        start_new_session=True)  # fmt: skip
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.events.put(json.loads(line))
            except json.JSONDecodeError:
                continue
        self.events.put(None)

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next event; None when the process is done; raises `TimeoutError`."""
        try:
            return self.events.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None

    def end(self) -> None:
        """Ends the child's own process group."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.process.wait()


def job_of(options: argparse.Namespace, cases: Sequence[Case], prepare: bool) -> Job:
    return {
        "cases": [case.name for case in cases],
        "rows_of": options.rows_of,
        "peers": options.peers,
        "rounds": options.rounds,
        "warm": options.warm,
        "search": "quick" if options.quick else "full",
        "most_sets": options.most_sets,
        "device": options.device,
        "prepare": prepare,
    }


def measure_rows(options: argparse.Namespace, cases: Sequence[Case], log: Any,
                 say: Callable[[str, str], None]) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Events of all rows, a child per family; a row whose child dies or hangs becomes a "failed" event."""
    # A quick run has no time for starting more processes.
    groups = [""] if options.quick else list(dict.fromkeys(case.family for case in cases))
    worked = False
    for family in groups:
        left = [case for case in cases if family in ("", case.family)]
        while left:
            child = Child(job_of(options, left, prepare=False), log)
            current, done = left[0].name, len(left)
            # Starting a process and importing torch must not count against the first row.
            limit = options.timeout + 60
            try:
                deadline = time.monotonic() + limit
                while (event := child.next(max(0.1, deadline - time.monotonic()))) is not None:
                    if event["event"] == "start":
                        current, deadline = event["case"], time.monotonic() + options.timeout
                    if event["event"] == "unusable" and not worked:
                        raise Unusable(event["message"])
                    worked |= event["event"] == "environment"
                    say(event.get("case", family), event.get("phase", ""))
                    if event["event"] in ("result", "failed", "environment"):
                        yield event
                    if event["event"] in ("result", "failed"):
                        left = left[1:]
                        current = left[0].name if left else ""
                code = child.process.wait(30)
                if left and not (code == 4 and len(left) < done):
                    yield {"event": "failed", "case": current, "message": f"the process ended with code {code}"}
                    left = left[1:]
            except (TimeoutError, subprocess.TimeoutExpired):
                yield {"event": "failed", "case": current, "message": f"no answer within {options.timeout:.0f} s"}
                left = left[1:]
            finally:
                child.end()


def prepare(options: argparse.Namespace, cases: Sequence[Case], log: Any, say: Callable[[str, str], None]) -> None:
    """Fills the compilers' caches on disk, with several children at once; a failure here recurs and is reported in the
    timed run."""
    jobs = min(options.jobs, len(cases))
    # Neighbours in a family often share a kernel: dealt out one by one, they would all compile it at the same time.
    size = -(-len(cases) // jobs)
    children = [Child(job_of(options, cases[i : i + size], prepare=True), log) for i in range(0, len(cases), size)]
    deadline = time.monotonic() + options.prepare_timeout
    done = 0
    try:
        for child in children:
            while True:
                try:
                    event = child.next(max(0.1, deadline - time.monotonic()))
                except TimeoutError:
                    break
                if event is None:
                    break
                if event["event"] == "unusable":
                    raise Unusable(event["message"])
                done += event["event"] in ("result", "failed")
                say("compiling", f"{done} of {len(cases)} rows")
    finally:
        for child in children:
            child.end()


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="kiln bench", description=__doc__.splitlines()[0])
    add_arguments(found)
    return found


def add_arguments(found: argparse.ArgumentParser) -> None:
    """The options, for this file's own parser and for `kiln bench`."""
    found.add_argument("families", nargs="*", metavar="FAMILY", help=f"{', '.join(FAMILIES)} (default: all)")
    found.add_argument(
        "--only", default="", metavar="WORDS", help='only rows whose name has these words, as "rms_norm 2048x"'
    )
    found.add_argument("--peers", default=",".join(PEERS),
                       help=f"peers besides Kiln, some of {','.join(PEERS[1:])} (default: all)")  # fmt: skip
    found.add_argument("--rounds", type=int, default=9, help="bursts of each peer (default: 9)")
    found.add_argument("--no-warm", dest="warm", action="store_false", help="leave out the column with warm caches")
    found.add_argument("--quick", action="store_true", help="3 rounds, a short search for the ceiling, no preparation")
    found.add_argument("--most-sets", type=int, default=1 << 14, help="largest number of copies of a row's arrays")
    found.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the suite without a GPU")
    found.add_argument("--timeout", type=float, default=120.0, help="seconds for one row (default: 120)")
    found.add_argument("--no-prepare", dest="prepare", action="store_false", help="do not compile ahead in parallel")
    found.add_argument(
        "--prepare-timeout", type=float, default=150.0, help="seconds for compiling ahead (default: 150)"
    )
    found.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="number of processes that compile"
    )
    found.add_argument("--from", dest="recorded", nargs="+", metavar="F",
                       help="report on recorded results, files of --json and --csv; if several contain the same row, "
                            "the last one counts")  # fmt: skip
    found.add_argument("--list", action="store_true", help="show the rows and the time they take; run nothing")
    for kind, ending in ENDINGS.items():
        what = "a PNG" if kind == "plot" else kind.upper()
        found.add_argument(f"--{kind}", nargs="?", const="", metavar="F",
                           help=f"write {what} (without F: bench-FAMILY.{ending} here, for all families bench.{ending})"
                           )  # fmt: skip
    found.add_argument("--commit", help="the commit to record, if there is no repository")
    found.add_argument("--log", metavar="F", help="file for the child processes' output (default: a temporary file)")
    found.add_argument("--strict", action="store_true", help="exit with 1 if a row misses its goal")
    found.set_defaults(rows_of="cases")  # the module whose `named` finds a row


def name_files(options: argparse.Namespace) -> list[str]:
    """Names each requested file; returns what is wrong with the names.

    `--csv norm` means the family and a file with the default name: no file has the name of a family, and a word that
    might be a misspelt family (without an extension or a folder) is refused.
    """
    wrong = []
    for kind in ENDINGS:
        value = getattr(options, kind)
        if value in FAMILIES:
            options.families = [*options.families, value]
            setattr(options, kind, "")
        elif value and not set(value) & {".", os.sep}:
            wrong.append(f"--{kind}: expected a file name with an ending or a folder (because a word alone may be a "
                         f"family's name with a slip in it), got {value!r}; ./{value} is a file")  # fmt: skip
    words = [name for name in FAMILIES if name in options.families]
    for kind, ending in ENDINGS.items():
        if getattr(options, kind) == "":
            setattr(options, kind, "-".join(["bench", *words]) + f".{ending}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    return run(parser().parse_intermixed_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Exit code: 0; 1 if Kiln is wrong or fails in a row (with --strict: or too slow); 2 for wrong usage."""
    import outputs
    import report

    if isinstance(options.peers, str):
        options.peers = [name for name in options.peers.split(",") if name]
    unknown = [name for name in options.peers if name not in PEERS] + [n for n in options.families if n not in FAMILIES]
    if unknown:
        print(f"kiln bench: unknown {', '.join(unknown)} (families {', '.join(FAMILIES)}; peers {', '.join(PEERS)})",
              file=sys.stderr)  # fmt: skip
        return 2
    if "kiln" not in options.peers:
        options.peers = ["kiln", *options.peers]
    if wrong := name_files(options):
        print("\n".join(f"kiln bench: {text}" for text in wrong), file=sys.stderr)
        return 2
    if options.quick:
        options.rounds, options.prepare = min(options.rounds, 3), False
    cases = select(options.families, options.only)
    if options.list:
        for case in cases:
            print(f"{case.family:11} {case.name:34} {case.traffic / 1e6:9.1f} MB  {case.reported}")
        seconds = estimate(cases, options.peers, options.prepare)
        print(f"{len(cases)} rows, about {seconds:.0f} s with {', '.join(options.peers)}")
        return 0
    results = report.Results()
    if options.recorded:
        try:
            for path in options.recorded:
                results.merge(report.Results.load(path))
        except (OSError, ValueError) as error:
            what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            print(f"kiln bench: {what}", file=sys.stderr)
            return 2
        if options.families or options.only:
            results.keep(options.families, [case.name for case in cases])
        if not (results.records or results.failures):
            print("kiln bench: the files have no such row", file=sys.stderr)
            return 2
    elif not cases:
        print(f"kiln bench: no row matches {options.only!r}", file=sys.stderr)
        return 2
    else:
        try:
            _measure(options, cases, results)
        except Unusable as error:
            print(f"kiln bench: {error}", file=sys.stderr)
            return 2
    report.show(results)
    written = outputs.write(results, csv=options.csv, json_file=options.json, plot=options.plot, html=options.html)
    if written:
        print(f"kiln bench: wrote {', '.join(written)}", file=sys.stderr)
    if results.broken() or (options.strict and results.missed()):
        return 1
    return 0


def _measure(options: argparse.Namespace, cases: Sequence[Case], results: Any) -> None:
    import report

    needs_torch()
    log_path = options.log or os.path.join(tempfile.gettempdir(), f"kiln-bench-{os.getpid()}.log")
    with open(log_path, "w") as log, report.Progress(len(cases)) as progress:
        if options.prepare and options.device == "cuda":
            prepare(options, cases, log, progress.phase)
        for event in measure_rows(options, cases, log, progress.phase):
            if event["event"] == "environment":
                facts = event["facts"] | ({"commit": options.commit} if options.commit else {})
                results.environment = results.environment or facts
                continue
            if event["event"] == "result":
                results.add(event["record"])
                progress.row(report.line(event["record"]))
            else:
                results.failures[event["case"]] = event["message"]
                progress.row(f"{event['case']}: {event['message']} (see {log_path})")
            if options.json:  # the measurements are kept, whatever comes next
                results.save(options.json)


if __name__ == "__main__":
    sys.exit(main())

"""Measures every recorded row with this library and an older one, in one run: `python bench/gate.py --old
kiln-0.1.0.whl`.

Each library has its own process, with the same arrays, checks and graphs (runner.py). The processes take turns on the
device, a burst each, so that whatever slows one down also slows the other. A row may lose 1 %; a row that seems to lose
more is measured in more rounds.

    python bench/gate.py --old old.whl                                # all rows of results/h200.csv
    python bench/gate.py --old folder/with/kiln/in/it --rows "rms_norm 2048x" --rounds 15 --csv gate.csv
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import math
import os
import pathlib
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import measure  # noqa: E402
from ahead import Process  # noqa: E402
from cases import named, select, with_variants  # noqa: E402
from verdict import geometric_mean  # noqa: E402

LEAST = 0.99
MORE = 3  # times as many rounds, where a row seems to lose

COLUMNS = ("row", "variant", "old_us", "old_p25", "old_p75", "new_us", "new_p25", "new_p75", "old_over_new", "rounds",
           "gpu", "driver", "old", "commit", "date", "method")  # fmt: skip

Times = dict[str, list[float]]


# ---- one library -----------------------------------------------------------------------------------------------------
def build(name: str, device: Any, runner: list[Any]) -> dict[str, Any]:
    """Compiles, checks and captures Kiln's variants of a row; ``runner`` holds them until the next row."""
    from runner import Runner, Settings, release

    runner.clear()
    release(device)
    row = Runner(named(name), device, Settings(("kiln",), warm=False, most_sets=4096), lambda _: None)
    makers = row.family.peers(row.case, row.tools)
    row.build("torch", makers["torch"], timed=False)  # its error is the measure
    found = {variant: row.build(variant, makers[variant]) for variant in makers if variant in with_variants(["kiln"])}
    row.restore()
    runner.append((row, found))
    return {variant: {"status": peer["status"], "note": peer["note"]} for variant, peer in found.items()}


def serve(device_name: str) -> int:
    """A library's process: reads requests from stdin and answers on stdout."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from device import environment, make_device

    device = make_device(device_name)
    runner: list[Any] = []
    for line in sys.stdin:
        task = json.loads(line)
        answer: dict[str, Any]
        try:
            if task["do"] == "facts":
                answer = environment(device)
            elif task["do"] == "build":
                answer = build(task["row"], device, runner)
            else:
                answer = {"us": runner[0][1][task["variant"]]["cold"]()}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
    return 0


# ---- both ------------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def libraries(old: str, device: str, log: Any) -> Iterator[dict[str, Process]]:
    """The processes of the old library and of the one that Python finds here."""
    with tempfile.TemporaryDirectory() as folder:
        if zipfile.is_zipfile(old):
            with zipfile.ZipFile(old) as wheel:
                wheel.extractall(folder)
            old = folder
        if not os.path.isdir(os.path.join(old, "kiln")):
            raise SystemExit(f"gate: expected a wheel or a folder that holds kiln, got {old}")
        command = [sys.executable, "-u", str(HERE / "gate.py"), "--serve", device]
        path = os.environ.get("PYTHONPATH", "")
        found = {}
        try:
            for name, first in (("old", [os.path.abspath(old)]), ("new", [])):
                environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*first, *filter(None, [path])]),
                               "KILN_CACHE": os.path.join(folder, name)}  # fmt: skip
                found[name] = Process(command, log, environment)
            yield found
        finally:
            for process in found.values():
                process.end()


def ask(process: Process, **task: Any) -> dict[str, Any]:
    answer = process.ask(task)
    if answer is None:
        return {"failed": "the process ended"}
    return answer


def race(processes: dict[str, Process], variant: str, rounds: int) -> Times:
    """Bursts of both, in turn."""

    def burst(process: Process) -> float:
        answer = ask(process, do="burst", variant=variant)
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return float(answer["us"])

    return measure.race({name: lambda p=process: burst(p) for name, process in processes.items()}, rounds)


def over(times: Times) -> float:
    """The speed of the new library over the old one's."""
    return measure.summarize(times["old"]).median / measure.summarize(times["new"]).median


def measured(processes: dict[str, Process], row: str, rounds: int) -> Iterator[tuple[str, Times | str]]:
    """For each variant, the times of both libraries, or the reason why there are none."""
    with ThreadPoolExecutor(2) as pool:
        built = dict(zip(processes, pool.map(lambda p: ask(p, do="build", row=row), processes.values()), strict=True))
    if "failed" in built["new"]:
        yield "kiln", f"new: {built['new']['failed']}"
        return
    for variant in built["new"]:
        if all(answer.get(variant, {}).get("status") == "unavailable" for answer in built.values()):
            continue
        problems = {name: answer.get("failed") or _problem(answer.get(variant)) for name, answer in built.items()}
        if any(problems.values()):
            yield variant, "; ".join(f"{name}: {text}" for name, text in problems.items() if text)
            continue
        times = race(processes, variant, rounds)
        if over(times) < LEAST:
            times = race(processes, variant, MORE * rounds)
        yield variant, times


def _problem(peer: dict[str, str] | None) -> str:
    if peer is None:
        return "not there"
    return "" if peer["status"] == "ok" else f"{peer['status']}: {peer['note']}"


def rows_of(path: pathlib.Path, words: str) -> list[str]:
    """The rows that are both in the file and in the suite."""
    with open(path, newline="", encoding="utf-8") as file:
        recorded = {f"{line['kernel']} {line['size']}" for line in csv.DictReader(file)}
    return [case.name for case in select([], words) if case.name in recorded]


def run(options: argparse.Namespace) -> int:
    end = time.monotonic() + options.seconds
    rows = rows_of(options.recorded, options.rows)
    if not rows:
        print(f"gate: no recorded row matches {options.rows!r}", file=sys.stderr)
        return 2
    measure.kept(options.csv, COLUMNS, measure.METHOD)
    ratios: dict[str, float] = {}
    failed: dict[str, str] = {}
    log_path = os.path.join(tempfile.gettempdir(), f"kiln-gate-{os.getpid()}.log")
    with open(log_path, "w") as log, libraries(options.old, options.device, log) as processes:
        facts = ask(processes["new"], do="facts") | {"old": os.path.basename(options.old)}
        if "failed" in facts:
            print(f"gate: {facts['failed']} (see {log_path})", file=sys.stderr)
            return 2
        for done, row in enumerate(rows):
            if time.monotonic() > end:
                print(f"{len(rows) - done} rows were not reached in {options.seconds:.0f} s", flush=True)
                failed |= dict.fromkeys(rows[done:], "not reached")
                break
            for variant, times in measured(processes, row, options.rounds):
                name = f"{row} {variant}"
                if isinstance(times, str):
                    failed[name] = times
                    print(f"{name}: {times}", flush=True)
                    continue
                ratios[name] = over(times)
                old, new = measure.summarize(times["old"]), measure.summarize(times["new"])
                print(f"{ratios[name]:.3f}  {name}: {old.median:.3f} -> {new.median:.3f} us", flush=True)
                if options.csv:
                    line = {"row": row, "variant": variant, "old_over_new": f"{ratios[name]:.4f}", "rounds": new.rounds}
                    for which, summary in (("old", old), ("new", new)):
                        line |= {f"{which}_us": f"{summary.median:.3f}", f"{which}_p25": f"{summary.p25:.3f}",
                                 f"{which}_p75": f"{summary.p75:.3f}"}  # fmt: skip
                    line |= {key: facts[key] for key in COLUMNS if key in facts}
                    measure.append(options.csv, COLUMNS, [line])
    lost = sorted((ratio, name) for name, ratio in ratios.items() if ratio < LEAST)
    print(f"{len(ratios)} rows, geometric mean {geometric_mean(ratios.values()) or 0:.3f}, {len(lost)} under {LEAST}, "
          f"{len(failed)} without figures")  # fmt: skip
    for ratio, name in lost:
        print(f"  {ratio:.3f}  {name}")
    return 1 if lost or failed or not ratios else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", metavar="W", help="a wheel of the older library, or the folder that contains kiln")
    parser.add_argument("--recorded", type=pathlib.Path, default=measure.RESULTS / "h200.csv", metavar="F",
                        help="the file whose rows are measured (default: results/h200.csv)")  # fmt: skip
    parser.add_argument("--rows", default="", help='only rows whose name has these words, as "rms_norm 2048x"')
    parser.add_argument("--rounds", type=int, default=7, help="bursts of each library (default: 7)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no row after this many seconds")
    parser.add_argument("--csv", help="append rows to this file")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the gate without a GPU")
    parser.add_argument("--serve", metavar="DEVICE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return serve(options.serve)
    if not options.old:
        parser.error("expected --old, the library to compare with")
    return run(options)


if __name__ == "__main__":
    sys.exit(main())

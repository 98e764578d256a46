"""Kernels over rows at untuned sizes, beside Inductor and quack: `python bench/sweep.py --csv sweep.csv`.

Shows whether launch plans generalise: every kernel at few, odd and many rows, at widths that include those of models,
in both 16-bit types, with dependent launch and without. Compiling takes longest: persistent processes (ahead.py) do it
while one process measures what is ready, about 0.2 s per cell. A run continues where the previous one ended: a cell in
the CSV is not measured again, and cells come in an order of which every prefix is a sample of all.

    python bench/sweep.py --csv sweep.csv --seconds 400               # as many as fit; again to go on
    python bench/sweep.py --csv sweep.csv --kernels rms_norm --rows 4096 --widths 5120 6656
    python bench/sweep.py --csv sweep.csv --report                    # what the file says
    python bench/sweep.py --csv sweep.csv --stale                     # measure cells again whose plan has changed

Inductor tunes by max-autotune; where that comes within `--close` of Kiln, it continues with coordinate descent as
torch.compile's own mode does, the cell is measured again, and the better result for Inductor counts. A cell is timed by
replays of a graph of about 0.6 ms after flushing the L2, in a few rounds; in more where the verdict is close.

A cell is slow where Kiln has less than 0.95 of the speed of a peer; the requirement for all is a geometric mean of 1.15
over the faster peer. A plan that loses with dependent launch is named, too.

Each of Kiln's lines holds the plan that ran. A cell is stale if the library now chooses another plan for it: its
figures are then of code that no longer runs. For the GPUs of `cells.L2_BYTES` this can be told without one.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gc
import json
import math
import os
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import ahead  # noqa: E402
import measure  # noqa: E402
import suite  # noqa: E402
from cases import Case  # noqa: E402
from cells import (  # noqa: E402
    DEPENDENT_LOSS,
    KERNELS,
    LEAST,
    MEAN,
    ROWS,
    TYPES,
    VARIANTS,
    WIDTHS,
    Answer,
    Cell,
    CellRunner,
    asked_of,
    case_of,
    cell_of,
    cells,
    plan_of,
    settings,
)
from device import Slices, Standing  # noqa: E402
from verdict import geometric_mean  # noqa: E402

# What measuring a cell takes, roughly.
CELL_SECONDS = 0.2

METHOD = "graph-replay v3: a replay behind a flushed L2, interleaved bursts in balanced order, median"

FACTS = ("gpu", "driver", "cuda", "kiln", "torch", "triton", "quack", "commit", "date", "method")
COLUMNS = ("kernel", "rows", "width", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us",
           "max_us", "rounds", "tb_per_s", "error", "note", *FACTS, "plan")  # fmt: skip

Line = dict[str, Any]


# ---- the file --------------------------------------------------------------------------------------------------------
def read(path: str) -> dict[Cell, dict[str, Line]]:
    """The recorded lines by cell and peer; a missing file holds none."""
    found: dict[Cell, dict[str, Line]] = {}
    if os.path.exists(path):
        with open(path, newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                cell = line["kernel"], int(line["rows"]), int(line["width"]), line["dtype"]
                found.setdefault(cell, {})[line["provider"]] = line
    return found


def complete(path: str) -> None:
    """Gives a file that was begun before a column existed that column, empty."""
    if not os.path.exists(path):
        return
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names, lines = reader.fieldnames or (), list(reader)
    if tuple(names) != COLUMNS:
        measure.append(f"{path}.new", COLUMNS, [{name: line.get(name) or "" for name in COLUMNS} for line in lines])
        os.replace(f"{path}.new", path)


def lines_of(case: Case, record: dict[str, Any], facts: dict[str, Any]) -> Iterator[Line]:
    """The lines of a cell that was measured."""
    for name, peer in record["peers"].items():
        line = {**_head(case), "provider": name, "status": peer["status"], "note": peer["note"]}
        if "cold" in peer:
            summary = {key: value for key, value in peer["cold"].items() if key != "tbs"}
            line |= measure.columns(measure.Summary(**summary)) | {"tb_per_s": f"{peer['cold']['tbs']:.3f}"}
        if "error" in peer:
            line["error"] = f"{peer['error']:.2e}"
        if peer["status"] == "ok":
            line["plan"] = plan_of(case, name, facts.get("gpu", ""))
        yield line | {name: facts[name] for name in FACTS if name in facts}


def _head(case: Case) -> Line:
    return dict(zip(("kernel", "rows", "width", "dtype"), cell_of(case), strict=True))


def missing(cells: Sequence[Case], known: dict[Cell, dict[str, Line]], peers: Sequence[str],
            close: float = 0.0) -> list[Case]:  # fmt: skip
    """The cells for which the file lacks a requested peer, or fully tuned Inductor where that is close."""
    lines = {case.name: known.get(cell_of(case), {}) for case in cells}
    return [case for case in cells
            if not asked_of(case, peers) <= lines[case.name].keys() or is_to_tune(lines[case.name], close)]  # fmt: skip


def is_to_tune(lines: dict[str, Line], close: float) -> bool:
    """Whether Inductor is not fully tuned yet and is within ``close`` of Kiln."""
    if lines.get("inductor", {}).get("note") != ahead.UNTUNED:
        return False
    return lead(lines) < close


def lead(lines: dict[str, Line]) -> float:
    """Kiln's speed over Inductor's, for Kiln's slower variant."""
    return min((over for variant in VARIANTS for over in ratios(lines, variant, ["inductor"]).values()),
               default=math.inf)  # fmt: skip


def plans(case: Case, lines: dict[str, Line]) -> list[tuple[str, str]]:
    """The plan that ran and the plan of now, for each variant of Kiln that was measured; "" where it is not known."""
    measured = (lines[name] for name in VARIANTS if name in lines and lines[name]["status"] == "ok")
    return [(line.get("plan") or "", plan_of(case, line["provider"], line["gpu"] or "")) for line in measured]


def is_stale(case: Case, lines: dict[str, Line]) -> bool:
    """Whether a cell was measured with another plan than the library chooses now."""
    return any(ran and now and ran != now for ran, now in plans(case, lines))


def is_unknown(case: Case, lines: dict[str, Line]) -> bool:
    """Whether it cannot be told if a cell is stale."""
    return not is_stale(case, lines) and not all(ran and now for ran, now in plans(case, lines))


# Note for Inductor if full tuning found nothing faster: the earlier figures stand.
SLOWER = "coordinate descent is no faster"


# ---- measuring -------------------------------------------------------------------------------------------------------
def elements(wanted: Sequence[Case], l2_bytes: int, least: int) -> int:
    """Elements of the inputs of the largest cell, in ``least`` sets or as many as fill the L2 three times."""

    def of(case: Case) -> int:
        arrays = {"swiglu": 2, "residual_rms_norm": 2}.get(case.kernel, 1)
        each = arrays * Slices.elements(*case.shape) + 2 * Slices.elements(case.shape[1])
        return each * max(least, math.ceil(3 * l2_bytes / case.footprint))

    return max(map(of, wanted), default=1)


class Meter:
    """Measures the cells that are ready; if one of them hangs, reports what is known of it and ends the process."""

    def __init__(self, options: argparse.Namespace, count: int, device: Any):
        self.options, self.device = options, device
        self.standing = Standing(device, count)
        self.settings = settings(options.peers, options.rounds)

    def measure(self, case: Case, answers: dict[str, Answer], hangs: Callable[[], None]) -> dict[str, Any]:
        watch = threading.Timer(self.options.timeout, hangs)
        watch.start()
        try:
            cell = CellRunner(case, self.device, self.settings, lambda _: None, self.standing, answers)
            return cell.run()
        finally:
            watch.cancel()


class Sweep:
    """A run: which cells are compiled, ready and measured."""

    def __init__(self, options: argparse.Namespace, wanted: Sequence[Case]):
        self.options = options
        self.cases = {case.name: case for case in wanted}
        self.compiled: dict[str, dict[str, Answer]] = {}
        # quack's code does not depend on the number of rows: the first cell of a width stands for all.
        self.quack: dict[Any, Answer | None] = {}
        self.facts: dict[str, Any] = {}
        self.untuned: dict[str, list[Line]] = {}  # cells that are measured again, with Inductor fully tuned
        self.done = 0

    # -- tasks --

    def tasks(self) -> Iterator[dict[str, Any]]:
        """The compile tasks: a task for quack of every width, one for the other peers of every cell."""
        for case in self.cases.values():
            if "quack" in asked_of(case, self.options.peers) and (key := self._width(case)) not in self.quack:
                self.quack[key] = None
                yield {"cell": case.name, "peers": ["quack"]}
            yield self._task(case, self.options.close == math.inf)

    def _task(self, case: Case, tuned: bool) -> dict[str, Any]:
        return {"cell": case.name, "peers": sorted(asked_of(case, self.options.peers) - {"quack"}), "tuned": tuned}

    @staticmethod
    def _width(case: Case) -> tuple[str, int, str]:
        return case.kernel, case.shape[1], case.dtype

    def take(self, task: dict[str, Any], answer: dict[str, Answer]) -> list[Case]:
        """Notes what was compiled; returns the cells that are ready now."""
        case = self.cases[task["cell"]]
        if task["peers"] == ["quack"]:
            self.quack[self._width(case)] = answer["quack"]
            return [other for other in self.cases.values()
                    if self._width(other) == self._width(case) and other.name in self.compiled]  # fmt: skip
        self.compiled.setdefault(case.name, {}).update(answer)
        return [case] if self._has_quack(case) else []

    def _has_quack(self, case: Case) -> bool:
        return self.quack.get(self._width(case), {}) is not None

    def answers(self, case: Case) -> dict[str, Answer]:
        quack = self.quack.get(self._width(case))
        return self.compiled[case.name] | ({"quack": quack} if quack else {})

    # -- lines --

    def write(self, case: Case, lines: Iterable[Line]) -> list[Line]:
        table = [{name: line.get(name, "") for name in COLUMNS} for line in lines]
        measure.append(self.options.csv, COLUMNS, table)
        self.done += 1
        print(f"{self.done:4} {case.name}: {told(table)}", flush=True)
        return table

    def failed(self, case: Case, note: str) -> None:
        facts = {name: self.facts[name] for name in FACTS if name in self.facts}
        self.write(case, ({**_head(case), "provider": name, "status": "failed", "note": note, **facts}
                          for name in sorted(asked_of(case, self.options.peers))))  # fmt: skip

    def measure(self, meter: Any, case: Case) -> bool:
        """Measures a cell; returns whether Inductor should be tuned further and the cell measured again."""

        def hangs() -> None:
            self.failed(case, f"no answer within {self.options.timeout:.0f} s")
            os._exit(3)

        try:
            record = meter.measure(case, self.answers(case), hangs)
        except Exception as error:
            self.failed(case, f"{type(error).__name__}: {error}"[:300])
            meter.device.synchronize()  # raises if the device is lost: then nothing more can be measured here
            return False
        lines = list(lines_of(case, record, self.facts))
        earlier = self.untuned.pop(case.name, None)
        if earlier and lead(by_provider(earlier)) < lead(by_provider(lines)):
            lines = [line | {"note": SLOWER if line["provider"] == "inductor" else line["note"]} for line in earlier]
        lines = self.write(case, lines)
        if is_to_tune(by_provider(lines), self.options.close):
            self.untuned[case.name] = lines
            return True
        return False


def run(options: argparse.Namespace, wanted: Sequence[Case]) -> None:
    """Measures cells as they are compiled."""
    suite.needs_torch()
    complete(options.csv)
    end = time.monotonic() + options.seconds
    sweep = Sweep(options, wanted)
    folder = tempfile.mkdtemp(prefix="kiln-sweep-")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # the processes are the parallelism
    lock = ahead.Lock(os.path.join(folder, "quiet"))
    job = {"device": options.device, "lock": os.path.join(folder, "quiet"), "elements": elements(wanted, 0, 1)}
    command = [sys.executable, "-u", str(HERE / "ahead.py"), json.dumps(job)]
    with open(os.path.join(folder, "log"), "w") as log, ahead.Pool(options.jobs, command, log) as pool:
        for task in sweep.tasks():
            pool.ask(task)
        meter, sweep.facts = start(options, wanted)
        ready: list[Case] = []
        began, busy = time.monotonic(), 0.0
        while (pool.open or ready) and time.monotonic() < end:
            # Take the device for a batch of cells, not for each cell anew.
            while pool.open and len(ready) < options.batch and time.monotonic() < end - CELL_SECONDS * len(ready):
                for task, answer in pool.get(0.5):
                    ready += sweep.take(task, answer)
                    if len(ready) >= options.batch:
                        break
            with lock:
                began_here = time.monotonic()
                for case in ready:
                    if time.monotonic() < end and sweep.measure(meter, case):
                        pool.ask({"cell": case.name, "peers": ["inductor"], "tuned": True}, soon=True)
                busy += time.monotonic() - began_here
            ready = []
        print(f"{sweep.done} cells measured in {busy:.1f} s of {time.monotonic() - began:.1f} s; {pool.open} tasks of "
              f"{options.jobs} processes open; what these print is in {folder}", flush=True)  # fmt: skip


def start(options: argparse.Namespace, wanted: Sequence[Case]) -> tuple[Any, dict[str, Any]]:
    """The meter for this machine, and its facts."""
    from device import FlushingDevice, HostDevice, environment

    try:
        device = HostDevice() if options.device == "cpu" else FlushingDevice()
    except SystemExit as error:
        raise suite.Unusable(str(error)) from error
    if "quack" in options.peers:
        with contextlib.suppress(ImportError):
            import quack  # noqa: F401 - takes seconds, while others compile
    gc.collect()
    gc.freeze()  # imported objects stay: do not scan them after every cell
    return Meter(options, elements(wanted, device.l2_bytes, 2), device), environment(device) | {"method": METHOD}


def by_provider(lines: Iterable[Line]) -> dict[str, Line]:
    return {line["provider"]: line for line in lines}


def told(lines: Sequence[Line]) -> str:
    """A cell's line of output while the sweep runs."""
    parts = [f"{line['provider']} {line['median_us'] or line['status']}" for line in lines]
    return ", ".join(parts) + "".join(f" — {line['note']}" for line in lines if line["status"] in ("failed", "wrong"))


# ---- the report ------------------------------------------------------------------------------------------------------
def microseconds(lines: dict[str, Line], name: str) -> float | None:
    line = lines.get(name)
    return float(line["median_us"]) if line and line["status"] == "ok" else None


def ratios(lines: dict[str, Line], variant: str, peers: Iterable[str]) -> dict[str, float]:
    """Speed of a variant of Kiln over that of each peer in a cell; empty where either was not measured."""
    ours = microseconds(lines, variant)
    theirs = {name: microseconds(lines, name) for name in peers}
    return {name: time / ours for name, time in theirs.items() if time is not None and ours is not None}


def report(known: dict[Cell, dict[str, Line]], wanted: Sequence[Case], peers: Sequence[str]) -> tuple[list[str], bool]:
    """What the file says about the requested cells, and whether it meets the requirements."""
    text, good = [], True
    measured = {cell_of(case): known[cell_of(case)] for case in wanted if cell_of(case) in known}
    text.append(f"{len(measured)} of {len(wanted)} cells measured; asked: none under {LEAST} of {', '.join(peers)}, "
                f"geometric mean {MEAN} over the faster")  # fmt: skip
    text += measure.mixed(line.get("method", "") for lines in measured.values() for line in lines.values())
    for variant in VARIANTS:
        found = {cell: over for cell, lines in measured.items() if (over := ratios(lines, variant, peers))}
        if not found:
            continue
        least = {cell: min(over, key=over.__getitem__) for cell, over in found.items()}
        mean = geometric_mean(over[least[cell]] for cell, over in found.items()) or math.nan
        slow = {cell: found[cell][name] for cell, name in least.items() if found[cell][name] < LEAST}
        good = good and not slow and mean >= MEAN
        text.append(f"{variant}: {len(found)} cells, geometric mean {mean:.3f}, {len(slow)} under {LEAST}")
        for kernel, dtype in sorted({(cell[0], cell[3]) for cell in found}):
            part = [over[least[cell]] for cell, over in found.items() if (cell[0], cell[3]) == (kernel, dtype)]
            text.append(f"    {kernel} {TYPES[dtype]}: {len(part)} cells, {geometric_mean(part):.3f}, "
                        f"least {min(part):.3f}")  # fmt: skip
        for cell in sorted(slow, key=slow.__getitem__):
            text.append(f"  {slow[cell]:.3f} of {least[cell]}: {case_of(*cell).name}")
    losses = {cell: over["kiln"] for cell, lines in measured.items()
              if (over := ratios(lines, "kiln+pdl", ["kiln"])) and over["kiln"] * DEPENDENT_LOSS < 1}  # fmt: skip
    text.append(f"slower with dependent launch than without by more than {DEPENDENT_LOSS - 1:.0%}: {len(losses)} cells")
    text += [f"  {losses[cell]:.3f}: {case_of(*cell).name}" for cell in sorted(losses, key=losses.__getitem__)]
    stale = [case for case in wanted if is_stale(case, measured.get(cell_of(case), {}))]
    unknown = sum(is_unknown(case, measured.get(cell_of(case), {})) for case in wanted)
    text.append(f"measured with another plan than the library chooses now: {len(stale)} cells (--stale measures them "
                f"again); plan not known: {unknown}")  # fmt: skip
    text += [f"  {case.name}" for case in sorted(stale, key=cell_of)]
    broken = [(case_of(*cell).name, name, line) for cell, lines in measured.items() for name, line in lines.items()
              if line["status"] in ("failed", "wrong")]  # fmt: skip
    text += [f"{where}: {name} {line['status']}: {line['note']}" for where, name, line in broken]
    return text, good and not losses and not stale and not broken and len(measured) == len(wanted)


# ---- the command line ------------------------------------------------------------------------------------------------
def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--csv", required=True, metavar="F", help="file of results; a run adds to it")
    found.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    found.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    found.add_argument("--widths", nargs="+", type=int, default=list(WIDTHS))
    found.add_argument("--dtypes", nargs="+", choices=TYPES, default=list(TYPES))
    found.add_argument("--peers", default="inductor,quack", help="peers besides Kiln (default: inductor,quack)")
    found.add_argument("--limit", type=int, help="largest number of cells to measure in this run")
    found.add_argument("--seconds", type=float, default=math.inf, help="start no cell after this many seconds")
    found.add_argument(
        "--batch", type=int, default=16, help="cells compiled ahead and then measured together (default: 16)"
    )
    found.add_argument("--rounds", type=int, default=4, help="bursts of each peer (default: 4)")
    found.add_argument("--close", type=float, default=1.1, metavar="R",
                       help="tune Inductor fully if Kiln has less than R times its speed (default: 1.1; inf: tune in "
                            "every cell right away)")  # fmt: skip
    found.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="number of processes that compile"
    )
    found.add_argument("--timeout", type=float, default=60.0, help="seconds for one cell (default: 60)")
    found.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the sweep without a GPU")
    found.add_argument("--stale", action="store_true",
                       help="measure, instead of what is missing, the cells whose plan has changed")  # fmt: skip
    found.add_argument("--list", action="store_true", help="list the cells that would be measured; run nothing")
    found.add_argument("--report", action="store_true", help="report on the file; run nothing")
    found.add_argument(
        "--strict", action="store_true", help="exit with 1 unless the file has all cells and all meet their goals"
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    peers = [name for name in options.peers.split(",") if name]
    options.peers = ["kiln", *peers]
    wanted = cells(options.kernels, options.rows, options.widths, options.dtypes)
    known = read(options.csv)
    if options.stale:
        left = [case for case in wanted if is_stale(case, known.get(cell_of(case), {}))]
    else:
        left = missing(wanted, known, options.peers, options.close)
    left = left[: options.limit]
    if options.list:
        print("\n".join(case.name for case in left))
        return 0
    if not options.report:
        try:
            run(options, left)
        except suite.Unusable as error:
            print(f"sweep: {error}", file=sys.stderr)
            return 2
    text, good = report(read(options.csv), wanted, peers)
    print("\n".join(text))
    return 1 if options.strict and not good else 0


if __name__ == "__main__":
    sys.exit(main())

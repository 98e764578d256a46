"""Kernels over rows at sizes nobody tuned for, beside Inductor and quack: `python bench/sweep.py --csv sweep.csv`.

Whether launch plans generalise: every kernel at few, odd and many rows, at widths that include those of models, in both
16-bit types, with dependent launch and without. 1,200 cells take hours, so they are measured in pieces: a cell that
the CSV has is not measured again, `--limit` and `--seconds` end a run early, and cells come in an order whose
every beginning is a sample of all.

    python bench/sweep.py --csv sweep.csv --seconds 600               # as many as fit; again to go on
    python bench/sweep.py --csv sweep.csv --kernels rms_norm --rows 4096 --widths 5120 6656
    python bench/sweep.py --csv sweep.csv --report                    # what the file says

A cell is slow where Kiln has less than 0.95 of the speed of a peer; asked of all is a geometric mean of 1.15 over the
faster peer. A plan that loses with dependent launch is named, too.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import measure  # noqa: E402
import suite  # noqa: E402
from cases import Case, family, with_variants  # noqa: E402
from verdict import geometric_mean  # noqa: E402

KERNELS = {"rms_norm": "norm", "residual_rms_norm": "norm", "layer_norm": "norm", "softmax": "softmax",
           "swiglu": "activation", "bias_gelu": "activation"}  # fmt: skip
ROWS = (1, 44, 130, 777, 4096)
WIDTHS = (512, 896, 1024, 1536, 2048, 3072, 3584, 4096, 5120, 6144, 6656, 7168, 8192, 11008, 13824, 14336, 16384, 18944,
          24576, 32768)  # fmt: skip
TYPES = {"float16": "f16", "bfloat16": "bf16"}

LEAST, MEAN = 0.95, 1.15
# A launch that is this much slower with dependent launch than without should not have begun early.
DEPENDENT_LOSS = 1.02
VARIANTS = ("kiln", "kiln+pdl")

FACTS = ("gpu", "driver", "cuda", "kiln", "torch", "triton", "quack", "commit", "date", "method")
COLUMNS = ("kernel", "rows", "width", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us",
           "max_us", "rounds", "tb_per_s", "error", "note", *FACTS)  # fmt: skip

Line = dict[str, Any]
Cell = tuple[str, int, int, str]


# ---- cells -----------------------------------------------------------------------------------------------------------
def case_of(kernel: str, rows: int, width: int, dtype: str) -> Case:
    module = family(KERNELS[kernel])
    found: Case = module.cell(kernel, (rows, width), dtype, size=f"{rows}×{width} {TYPES[dtype]}")
    return found


def cell_of(case: Case) -> Cell:
    return case.kernel, case.shape[0], case.shape[1], case.dtype


def spread(cells: Sequence[Case]) -> list[Case]:
    """The cells in an order whose every beginning is spread over all of them: steps of the golden ratio."""
    count = len(cells)
    step = max(1, round(count * 0.618))
    while math.gcd(step, count) > 1:
        step += 1
    return [cells[i * step % count] for i in range(count)]


def cells(kernels: Iterable[str] = tuple(KERNELS), rows: Iterable[int] = ROWS, widths: Iterable[int] = WIDTHS,
          types: Iterable[str] = tuple(TYPES)) -> list[Case]:  # fmt: skip
    return spread([case_of(*cell) for cell in itertools.product(kernels, rows, widths, types)])


def named(name: str) -> Case:
    """The cell that a worker is asked for, of any size: "rms_norm 44×5120 bf16"."""
    kernel, size, short = name.split()
    rows, width = map(int, size.split("×"))
    return case_of(kernel, rows, width, next(dtype for dtype, text in TYPES.items() if text == short))


# ---- the file --------------------------------------------------------------------------------------------------------
def read(path: str) -> dict[Cell, dict[str, Line]]:
    """By cell and peer what was recorded; a file that is not there holds nothing."""
    found: dict[Cell, dict[str, Line]] = {}
    if os.path.exists(path):
        with open(path, newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                cell = line["kernel"], int(line["rows"]), int(line["width"]), line["dtype"]
                found.setdefault(cell, {})[line["provider"]] = line
    return found


def lines_of(case: Case, record: dict[str, Any], facts: dict[str, Any]) -> Iterator[Line]:
    """The lines of a cell that was measured."""
    for name, peer in record["peers"].items():
        line = {**_head(case), "provider": name, "status": peer["status"], "note": peer["note"]}
        if "cold" in peer:
            summary = {key: value for key, value in peer["cold"].items() if key != "tbs"}
            line |= measure.columns(measure.Summary(**summary)) | {"tb_per_s": f"{peer['cold']['tbs']:.3f}"}
        if "error" in peer:
            line["error"] = f"{peer['error']:.2e}"
        yield line | {name: facts[name] for name in FACTS if name in facts}


def _head(case: Case) -> Line:
    return dict(zip(("kernel", "rows", "width", "dtype"), cell_of(case), strict=True))


def missing(cells: Sequence[Case], known: dict[Cell, dict[str, Line]], peers: Iterable[str]) -> list[Case]:
    """The cells of which the file lacks a peer that is asked for."""
    asked = set(peers)
    return [case for case in cells if not asked <= known.get(cell_of(case), {}).keys()]


# ---- measuring -------------------------------------------------------------------------------------------------------
def asked_of(peers: Sequence[str]) -> set[str]:
    return {name for name in with_variants(peers) if name != "kiln-lists"}


def run(options: argparse.Namespace, wanted: Sequence[Case]) -> None:
    """Measures cells, a piece at a time: its peers compile side by side, then it runs in one process."""
    suite.needs_torch()
    end = time.monotonic() + options.seconds
    log_path = os.path.join(tempfile.gettempdir(), f"kiln-sweep-{os.getpid()}.log")
    facts: dict[str, Any] = {}
    done = 0
    with open(log_path, "w") as log:
        for start in range(0, len(wanted), options.piece):
            piece = wanted[start : start + options.piece]
            by_name = {case.name: case for case in piece}
            if options.prepare and options.device == "cuda":
                options.prepare_timeout = min(600.0, max(1.0, (end - time.monotonic()) * options.share))
                suite.prepare(options, piece, log, lambda *_: None)
            events = suite.measure_rows(options, piece, log, lambda *_: None)
            try:
                for event in events:
                    if event["event"] == "environment":
                        facts = event["facts"]
                        continue
                    case = by_name[event["case"] if event["event"] == "failed" else event["record"]["case"]["name"]]
                    if event["event"] == "result":
                        lines = list(lines_of(case, event["record"], facts))
                    else:
                        lines = [
                            {**_head(case), "provider": name, "status": "failed", "note": event["message"], **facts}
                            for name in sorted(asked_of(options.peers))
                        ]
                    lines = [{name: line.get(name, "") for name in COLUMNS} for line in lines]
                    measure.append(options.csv, COLUMNS, lines)
                    done += 1
                    print(f"{done:4} {case.name}: {told(lines)}", flush=True)
                    if time.monotonic() > end:
                        return
            finally:
                events.close()


def told(lines: Sequence[Line]) -> str:
    """A cell as it is reported while the sweep runs."""
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
    """What the file says of the cells that were asked for, and whether it is what is asked."""
    text, good = [], True
    measured = {cell_of(case): known[cell_of(case)] for case in wanted if cell_of(case) in known}
    text.append(f"{len(measured)} of {len(wanted)} cells measured; asked: none under {LEAST} of {', '.join(peers)}, "
                f"geometric mean {MEAN} over the faster")  # fmt: skip
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
    broken = [(case_of(*cell).name, name, line) for cell, lines in measured.items() for name, line in lines.items()
              if line["status"] in ("failed", "wrong")]  # fmt: skip
    text += [f"{where}: {name} {line['status']}: {line['note']}" for where, name, line in broken]
    return text, good and not losses and not broken and len(measured) == len(wanted)


# ---- the command line ------------------------------------------------------------------------------------------------
def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--csv", required=True, metavar="F", help="what was measured; a run adds to it")
    found.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    found.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    found.add_argument("--widths", nargs="+", type=int, default=list(WIDTHS))
    found.add_argument("--dtypes", nargs="+", choices=TYPES, default=list(TYPES))
    found.add_argument("--peers", default="inductor,quack", help="beside Kiln (default: inductor,quack)")
    found.add_argument("--limit", type=int, help="cells to measure in this run")
    found.add_argument("--seconds", type=float, default=math.inf, help="begin no cell after so many")
    found.add_argument("--piece", type=int, default=96, help="cells that compile ahead together (default: 96)")
    found.add_argument("--share", type=float, default=0.5, help="of the time left, for compiling ahead (default: 0.5)")
    found.add_argument("--rounds", type=int, default=5, help="bursts of each peer (default: 5)")
    found.add_argument("--most-sets", type=int, default=4096, help="copies of a cell's arrays at most")
    found.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="processes that compile")
    found.add_argument("--timeout", type=float, default=60.0, help="seconds for one cell (default: 60)")
    found.add_argument("--no-prepare", dest="prepare", action="store_false", help="do not compile ahead in parallel")
    found.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the sweep without a GPU")
    found.add_argument("--list", action="store_true", help="name the cells that are missing; run nothing")
    found.add_argument("--report", action="store_true", help="report on the file; run nothing")
    found.add_argument("--strict", action="store_true", help="exit 1 unless the file has all cells, as fast as asked")
    # What the suite's own runs decide otherwise: one process for all families, and no second figure of warm caches.
    found.set_defaults(quick=True, warm=False, rows_of="sweep")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    peers = [name for name in options.peers.split(",") if name]
    options.peers = ["kiln", *peers]
    wanted = cells(options.kernels, options.rows, options.widths, options.dtypes)
    left = missing(wanted, read(options.csv), asked_of(options.peers))[: options.limit]
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

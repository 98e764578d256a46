"""How Kiln measures, once.

Peers run interleaved in one process: round after round each function runs once, so that a machine that slows down slows
all of them. A row is the median over the rounds with the 20th and 80th percentile; nothing is timed before its result
has been checked. Rows go to CSV with what is needed to read them later: machine, versions, commit, method.
"""

from __future__ import annotations

import csv
import datetime
import os
import pathlib
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    kernel: str
    size: str
    provider: str
    milliseconds: float
    p20: float
    p80: float
    rounds: int
    speed: float
    unit: str


def interleaved(functions: dict[str, Callable[[], object]], seconds: float = 2.0, warmup: int = 2,
                least: int = 5) -> dict[str, list[float]]:  # fmt: skip
    """Milliseconds of every round for each function; at least ``least`` rounds, then until ``seconds`` have passed."""
    for function in functions.values():
        for _ in range(warmup):
            function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < least:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times


def rows(kernel: str, size: str, times: dict[str, list[float]], work: float, unit: str) -> list[Row]:
    """One row per provider; ``work`` is bytes or operations, ``unit`` "GB/s" or "GFLOP/s"."""
    result = []
    for provider, values in times.items():
        cuts = statistics.quantiles(values, n=10)
        median = statistics.median(values)
        result.append(Row(kernel, size, provider, round(median, 4), round(cuts[1], 4), round(cuts[7], 4), len(values),
                          round(work / median / 1e6, 2), unit))  # fmt: skip
    return result


def environment() -> dict[str, str]:
    import kiln
    import numpy

    model = platform.processor() or platform.machine()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent)
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "versions": f"kiln {kiln.__version__}, numpy {numpy.__version__}, python {platform.python_version()}",
        "commit": commit.stdout.strip(),
    }


def write(name: str, table: list[Row]) -> pathlib.Path:
    """Writes ``results/NAME.csv``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    about = environment()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*Row.__dataclass_fields__, *about])
        writer.writeheader()
        for row in table:
            writer.writerow({**asdict(row), **about})
    return path

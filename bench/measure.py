"""How Kiln measures, once: for the CPU beside numpy, for a GPU beside every peer.

On a CPU, peers run interleaved in one process: round after round each function runs once, so that a machine that slows
down slows all of them. A row is the median over the rounds with the 20th and 80th percentile.

On a GPU (`METHOD`):

1. Correctness first. Outputs are poisoned with NaN, the peer runs, and ‖out − exact‖ / ‖exact‖ against float64 must be
   at most twice what torch's own operation has in the same dtype. A peer with wrong results is not timed.
2. Launches are captured into a CUDA graph. What is timed is a replay, so no peer pays for its host code.
3. Launch i works on set i mod `sets`. A set is every array the kernel touches: inputs, weights, outputs, optimizer
   state. The sets together are at least three times the L2 cache, so nothing from the previous launch is found there.
   Peers that allocate their outputs keep `sets` of them alive while capturing: the same rotation.
4. Peers take turns in bursts of a few milliseconds, one burst each per round, in a balanced order (`orders`): each
   peer has each place in a round, and each other peer just before it, about equally often. Each burst is preceded by
   one untimed replay: the first launches after another peer's find its dirty lines in the L2. Where products decide, a
   chip at its power limit has a clock that depends on what ran in the last tens of milliseconds: bursts last 25 ms,
   and each is preceded by 100 ms (`SETTLE_US`) of the same peer, untimed, so that its clock is the peer's own.
5. A figure is the median over the rounds; its spread is the quartiles and the extremes. Clocks, power, driver and
   versions are recorded beside it. Clocks are never changed.
6. A second figure, `warm`, repeats one set: operands come from the L2 where they fit. Other benchmarks report that one.

Rows go to CSV with what is needed to read them later: machine, versions, commit, method.
"""

from __future__ import annotations

import csv
import datetime
import itertools
import math
import os
import pathlib
import platform
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

RESULTS = pathlib.Path(__file__).parent / "results"

# Microseconds of a graph, of a burst of its replays, and of what runs untimed before a burst, where products decide.
GRAPH_US, BURST_US, SETTLE_US = 2000.0, 25000.0, 100000.0

# Stored in every recorded row; the number changes whenever figures stop being comparable.
METHOD = (
    "graph-replay v2: all arrays rotated past 3xL2, interleaved bursts in balanced order, where products decide each "
    f"after {SETTLE_US / 1e3:.0f} ms untimed, median"
)


def method_of(family: str) -> str:
    """The method as a family that has its own plans records it."""
    return METHOD.replace(" ", f" {family} ", 1)


def mixed(methods: Iterable[str]) -> list[str]:
    """A report's warning that its rows were measured by methods that are not comparable; nothing if there is only one.
    What is before the colon tells them apart."""
    found = sorted({method.split(":")[0] for method in methods if method})
    return [f"mixed       not comparable: {', '.join(found)}"] if len(found) > 1 else []


# ---- plans and statistics: what the GPU method needs that needs no GPU -----------------------------------------------
@dataclass(frozen=True)
class Plan:
    """How much data, how many launches and how many rounds a row gets."""

    sets: int  # copies of everything a launch touches
    launches: int  # in one graph; a multiple of `sets`
    replays: int  # of the graph in one timed burst
    warm_launches: int  # in the graph that repeats one set
    rounds: int


# One row of 4096 needs about 8000 copies. Beyond this bound, capturing would take longer than it is worth.
MOST_SETS = 1 << 14


def plan(footprint: int, traffic: int, l2_bytes: int, rounds: int = 9, graph_us: float = 1500.0,
         burst_us: float = 4000.0, most_sets: int = MOST_SETS) -> Plan:  # fmt: skip
    """The plan of a row whose set has ``footprint`` bytes and whose launch moves ``traffic`` bytes.

    A graph lasts at least ``graph_us``, so that the gap between two replays (about 2 µs) does not show, and a burst at
    least ``burst_us``. The duration of a launch is guessed from its traffic, the same for every peer.
    """
    if footprint <= 0 or traffic <= 0:
        raise ValueError(f"expected a positive footprint and traffic, got {footprint} and {traffic}")
    launch_us = 1.5 + traffic / 4.0e6
    sets = min(most_sets, max(2, math.ceil(3 * l2_bytes / footprint)))
    launches = sets * max(1, math.ceil(graph_us / launch_us / sets))
    replays = max(1, math.ceil(burst_us / (launch_us * launches)))
    return Plan(sets, launches, replays, min(1024, max(8, math.ceil(graph_us / launch_us))), rounds)


@dataclass(frozen=True)
class Summary:
    """Microseconds of one launch over the rounds."""

    median: float
    p25: float
    p75: float
    least: float
    most: float
    rounds: int

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, relative to the median."""
        return (self.p75 - self.p25) / 2 / self.median


def quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between the two nearest ranks of a sorted sequence."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarize(values: Sequence[float]) -> Summary:
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError(f"expected positive times, got {list(values)}")
    ordered = sorted(values)
    return Summary(quantile(ordered, 0.5), quantile(ordered, 0.25), quantile(ordered, 0.75), ordered[0], ordered[-1],
                   len(ordered))  # fmt: skip


def columns(times: Summary) -> dict[str, Any]:
    """A summary as the columns of a recorded row."""
    return {"median_us": f"{times.median:.3f}", "p25_us": f"{times.p25:.3f}", "p75_us": f"{times.p75:.3f}",
            "min_us": f"{times.least:.3f}", "max_us": f"{times.most:.3f}", "rounds": times.rounds}  # fmt: skip


def design(count: int) -> list[list[int]]:
    """Williams' design: orders of ``count`` peers that give each peer each place, and each other peer directly before
    it, equally often. For an even count the rows of one Latin square, for an odd one also their mirror images."""
    zigzag = [(k + 1) // 2 if k % 2 else -(k // 2) for k in range(count)]  # neighbours are apart by 1, -2, 3, -4, …
    rows = [[(place + shift) % count for place in zigzag] for shift in range(count)]
    return rows if count % 2 == 0 else rows + [row[::-1] for row in rows]


def orders(count: int, rounds: int) -> list[list[int]]:
    """The order of ``count`` peers in each round: a row of their design; when all have been used, they are used again.

    Of the rows left, the next is the one whose places and predecessors have been used least; the last peer of a round
    precedes the first of the next one. Nobody follows itself, except where there are only two.
    """
    found: list[list[int]] = []
    used: Counter[tuple[str, int, int]] = Counter()
    left: list[list[int]] = []
    last: list[int] = []  # who ran last

    def uses(row: list[int]) -> list[tuple[str, int, int]]:
        after = itertools.pairwise(last + row)
        return [("at", *pair) for pair in enumerate(row)] + [("after", *pair) for pair in after]

    for _ in range(rounds if count else 0):
        left = left or design(count)
        best = min(left, key=lambda row: (row[:1] == last, sum(used[use] ** 2 for use in uses(row))))
        left.remove(best)
        used.update(uses(best))
        found.append(best)
        last = best[-1:]
    return found


def race(bursts: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """One burst of each peer per round, in a balanced order. A burst returns microseconds per launch."""
    times: dict[str, list[float]] = {name: [] for name in bursts}
    names = list(bursts)
    for order in orders(len(names), rounds):
        for i in order:
            times[names[i]].append(bursts[names[i]]())
    return times


def graph_burst(device: Any, launch: Callable[[], None], us: float) -> Callable[[], float]:
    """Bursts, each after a while untimed, of a graph of launches, one of which takes about ``us``: see ``race``."""
    count = max(1, math.ceil(GRAPH_US / us))

    def enqueue() -> None:
        for _ in range(count):
            launch()

    replays, settle = (max(1, math.ceil(lasting / (count * us))) for lasting in (BURST_US, SETTLE_US))
    return device.burst(device.capture(enqueue), count, replays, settle)


def plan_of_products(
    us: float, footprint: int, l2_bytes: int, rounds: int = 9, graph_us: float = GRAPH_US, burst_us: float = BURST_US
) -> Plan:
    """As `plan`, for a row whose launch takes about ``us``, where products decide and not traffic."""
    sets = min(MOST_SETS, max(2, math.ceil(3 * l2_bytes / footprint)))
    launches = sets * max(1, math.ceil(graph_us / us / sets))
    replays = max(1, math.ceil(burst_us / (us * launches)))
    return Plan(sets, launches, replays, min(1024, max(1, math.ceil(graph_us / us))), rounds)


def rotated(
    device: Any, plan: Plan, launch: Callable[[int], None], burst_us: float, settle_us: float = 0.0
) -> tuple[Callable[[], None], dict[str, Callable[[], float]]]:
    """A graph of launches that rotates the sets, and the bursts of a peer: ``burst`` replays that graph, ``warm`` one
    that repeats the first set. ``launch(i)`` enqueues a launch on set i.

    A burst lasts about ``burst_us``, but at least one replay: how often a peer's graph is replayed depends on how long
    one replay takes, so that slow peers do not heat the chip longer than fast ones. Before it, the peer runs untimed
    for at least ``settle_us``.
    """

    def captured(sets: int, launches: int) -> Callable[[], None]:
        def enqueue() -> None:
            for i in range(launches):
                launch(i % sets)

        replay: Callable[[], None] = device.capture(enqueue)
        return replay

    def fitted(replay: Callable[[], None], launches: int, us: float) -> Callable[[], float]:
        once = device.burst(replay, launches, 1)() * launches
        replays, settle = max(1, round(us / once)), math.ceil(settle_us / once)
        burst: Callable[[], float] = device.burst(replay, launches, replays, settle)
        return burst

    cold, warm = captured(plan.sets, plan.launches), captured(1, plan.warm_launches)
    bursts = {
        "burst": fitted(cold, plan.launches, burst_us),
        "warm": fitted(warm, plan.warm_launches, burst_us / 2),
    }
    return cold, bursts


def race_ready(found: Mapping[str, dict[str, Any]], rounds: int) -> None:
    """Races the peers that are ready, by their ``burst``, and puts ``times`` into each; then, over half as many rounds,
    by their ``warm``, if they have one, and puts ``warm_times`` into each."""
    ready = {name: peer["burst"] for name, peer in found.items() if peer["status"] == "ok"}
    for name, times in race(ready, rounds).items():
        found[name]["times"] = times
    again = {name: found[name]["warm"] for name in ready if "warm" in found[name]}
    for name, times in race(again, max(3, rounds // 2)).items():
        found[name]["warm_times"] = times


def failed(error: Exception) -> dict[str, str]:
    """The result of a peer that raised."""
    text = str(error).strip().splitlines()
    return {"status": "failed", "note": f"{type(error).__name__}: {text[0] if text else ''}"[:300]}


# Half the distance between 1 and the next larger number: the error of one rounding.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def allowed_error(torch_error: float, dtype: str) -> float:
    """The error a peer may have when torch's own operation has ``torch_error``.

    The floor, a quarter of a rounding in the norm, is below what any rounding to ``dtype`` leaves: it only keeps an
    operation that happens to be exact in torch from asking others to be exact too.
    """
    return max(2 * torch_error, ROUNDOFF[dtype] / 4)


# ---- the CPU target --------------------------------------------------------------------------------------------------
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


def commit() -> str:
    """The short hash of the checkout, with a + if it has changes; "unknown" outside a repository."""

    def git(*words: str) -> str:
        try:
            return subprocess.run(["git", *words], capture_output=True, text=True, cwd=RESULTS.parent).stdout.strip()
        except OSError:
            return ""

    name = git("rev-parse", "--short", "HEAD")
    return (name + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")) if name else "unknown"


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
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "versions": f"kiln {kiln.__version__}, numpy {numpy.__version__}, python {platform.python_version()}",
        "commit": commit(),
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


def kept(path: str | None, columns: Sequence[str], method: str) -> list[dict[str, str]]:
    """The lines of a file that a run is to continue, if it exists; exits if they have other columns or other methods,
    because a report compares them."""
    if not path or not pathlib.Path(path).exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != tuple(columns):
            raise SystemExit(f"{path}: expected a file with the columns of this benchmark, got others: name a new file")
        lines = list(reader)
    if mixed([method, *(line["method"] for line in lines)]):
        raise SystemExit(f"{path}: expected rows by {method.split(':')[0]}, got others: name a new file")
    return lines


def append(path: str, names: Sequence[str], table: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows to a CSV file of recorded rows, with the column names in its first line."""
    new = not pathlib.Path(path).exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        if new:
            writer.writeheader()
        writer.writerows(table)

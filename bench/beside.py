"""Benchmarks that race peers row by row: which rows, which peers, the errors that peers may have, the CSV, and what a
CSV says about requirements."""

from __future__ import annotations

import argparse
import csv
import gc
import math
import pathlib
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import measure
from cases import Unavailable
from verdict import geometric_mean

# The error of Kiln's result may be at most this many times that of the best peer of the same type; that of a peer at
# most PEERS_MAY times. Where there is no such peer, any error must stay below ALONE: weights and results are rounded to
# 16 bits, which gives 3e-4.
MAY, PEERS_MAY, ALONE = 1.5, 2.0, 2e-3

# What attention and decoding record: the same names as in the other families.
COLUMNS = (
    "family", "kernel", "size", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us", "max_us",
    "tb_per_s", "tflops", "warm_us", "warm_tb_per_s", "over_best_peer", "over_kiln", "error", "allowed_error", "rounds",
    "sets", "bytes", "note", "gpu", "driver", "cuda", "kiln", "torch", "triton", "commit", "date", "method",
)  # fmt: skip


# ---- the command line ------------------------------------------------------------------------------------------------
def make_parser(doc: str, known: Sequence[str]) -> argparse.ArgumentParser:
    """``known``: all peers."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rows", default="", help='only rows that have these words; ";" separates alternatives')
    parser.add_argument("--peers", default=",".join(known), help=f"some of {','.join(known)} (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="bursts of each peer (default: 9)")
    parser.add_argument("--csv", help="append rows to this file; skip rows that it already has")
    parser.add_argument("--limit", type=float, default=math.inf, help="start no row after this many seconds")
    return parser


def add_tuning(parser: argparse.ArgumentParser, tuned: pathlib.Path) -> None:
    """The options of benchmarks that can tune, report, and run without a GPU."""
    parser.add_argument("--tune", action="store_true", help="time Kiln's candidates too (the peer kiln-tuned)")
    parser.add_argument("--tuned", type=pathlib.Path, default=tuned, help="winning plans (default: %(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the suite without a GPU")
    parser.add_argument("--shrink", type=int, default=1, help="divide tokens and heads, to try the suite")
    parser.add_argument("--list", action="store_true", help="show the rows, run nothing")
    parser.add_argument("--report", nargs="+", metavar="CSV", help="what recorded rows say about the requirements")


def words_of(row: Any) -> set[str]:
    return {*row.name.split(), getattr(row, "group", "")}


def choose(
    parser: argparse.ArgumentParser, options: argparse.Namespace, every: Iterable[Any], known: Sequence[str]
) -> tuple[list[Any], list[str]]:
    """The requested rows and peers; exits if there are none."""
    peers = options.peers.split(",")
    if unknown := [name for name in peers if name not in known]:
        parser.error(f"unknown {', '.join(unknown)} (peers: {', '.join(known)})")
    wanted = [set(text.split()) for text in options.rows.split(";")]
    chosen = [row for row in every if any(words <= words_of(row) for words in wanted)]
    if not chosen:
        parser.error(f"no row has the words {options.rows!r}")
    return chosen, peers


# ---- one row ---------------------------------------------------------------------------------------------------------
class Peer(NamedTuple):
    """``launch(i)`` enqueues a launch on set i, ``result(i)`` is what the last one gave. ``exact``: what the result
    should be, if that is not the row's own; None if it is another function, which is timed and not checked."""

    launch: Callable[[int], None]
    result: Callable[[int], Any]
    note: str = ""
    exact: Any = "row"


@dataclass(frozen=True)
class Gate:
    """``measures``: peers of the same type, whose least error is the measure; ``ours``: those that are ours, except
    ``alone``, which have no peer of their type."""

    measures: Collection[str]
    ours: Collection[str]
    alone: Collection[str] = ()

    def allowed(self, name: str, errors: Mapping[str, float]) -> float:
        """The error that a peer may have, when peers have ``errors``."""
        known = [error for peer, error in errors.items() if peer in self.measures and math.isfinite(error)]
        if not known or name in self.alone:
            return ALONE
        return min(ALONE, (MAY if name in self.ours else PEERS_MAY) * min(known))


class Bench:
    """A row on a device. Families say what its sets are (``plan``), how a result's error is measured, and which peers
    there are: methods of the peers' names, with _ for -."""

    gate: Gate
    device: Any
    plan: measure.Plan
    burst_us, settle_us = measure.BURST_US, measure.SETTLE_US
    errors: dict[str, float]
    kept: list[Any]

    def error(self, out: Any, i: int, exact: Any) -> float:
        """``exact``: a peer's own, or "row"."""
        raise NotImplementedError

    def make(self, name: str) -> Peer:
        found: Peer = getattr(self, name.replace("-", "_").replace("+", "_"))()
        return found

    def checked(self, peer: Peer) -> float:
        """The worst error of the first and the last set; results that peers are given are poisoned first."""
        worst = 0.0
        for i in sorted({0, self.plan.sets - 1}):
            self.poison(i)
            peer.launch(i)
            self.device.synchronize()
            worst = max(worst, self.error_of(peer, i))
        return worst

    def poison(self, i: int) -> None:
        """Fills the results of a set with NaN."""

    def error_of(self, peer: Peer, i: int) -> float:
        if peer.exact is None:
            return 0.0
        error = self.error(peer.result(i), i, peer.exact)
        return math.inf if math.isnan(error) else error

    def prepare(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Makes the peers, measures their errors and captures those that are right."""
        found: dict[str, dict[str, Any]] = {}
        made: dict[str, Peer] = {}
        # Ours come last: tuning keeps only what is right, and the peers say what that is.
        for name in sorted(names, key=lambda name: name in self.gate.ours):
            found[name] = {"status": "ok", "note": "", "error": "", "allowed": ""}
            with self._failing(found[name]):
                made[name] = self.make(name)
                found[name]["note"] = made[name].note
                self.errors[name] = found[name]["error"] = self.checked(made[name])
                if made[name].exact is None:
                    self.errors.pop(name)
                    found[name]["error"] = ""
        for name, peer in made.items():
            if found[name]["status"] != "ok":
                continue
            allowed = found[name]["allowed"] = self.gate.allowed(name, self.errors)
            with self._failing(found[name]):
                if self._refused(found[name], self.errors.get(name, 0.0), allowed):
                    continue
                replay, bursts = measure.rotated(self.device, self.plan, peer.launch, self.burst_us, self.settle_us)
                last = self.plan.sets - 1
                self.poison(last)
                replay()
                self.device.synchronize()
                # A graph that leaves its results unwritten would be fast.
                if not self._refused(found[name], self.error_of(peer, last), allowed, "replayed: "):
                    found[name].update(bursts)
                    self.kept.append((peer, replay))  # graphs refer to arrays only by address
        return {name: found[name] for name in names}

    def _refused(self, found: dict[str, Any], error: float, allowed: float, when: str = "") -> bool:
        if error <= allowed:
            return False
        found.update(status="wrong", note=f"{when}error {error:.2e}, allowed {allowed:.2e}")
        return True

    def _failing(self, found: dict[str, Any]) -> Failing:
        return Failing(self.device, found)

    def run(self, names: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
        self.errors, self.kept = {}, []
        found = self.prepare(names)
        measure.race_ready(found, rounds)
        return found

    def tuned(self, key: str, winners: Any, variants: Mapping[str, Callable[[], Peer]]) -> Peer:
        """The fastest right variant, or the one that won earlier. ``variants``: the default first."""
        kept = winners.get(key)
        if kept in variants:
            return variants[kept]()._replace(note=kept)
        peers: dict[str, Peer] = {}
        bursts, why = {}, "no candidates"
        for name, make in variants.items():
            try:
                peer = make()
                error = self.checked(peer)
                if not error <= self.gate.allowed("kiln-tuned", self.errors):
                    why = f"error {error:.2e}"
                    continue
                bursts[name] = measure.rotated(self.device, self.plan, peer.launch, 2000.0)[1]["burst"]
                peers[name] = peer
                self.kept.append(peer)
            except Exception as error:  # a candidate that does not compile or launch here is skipped
                why = measure.failed(error)["note"]
                self.device.synchronize()
        if not bursts:
            raise Unavailable(f"none of {len(variants)} candidates works ({why})")

        def ranked(times: Mapping[str, Sequence[float]]) -> list[str]:
            return sorted(times, key=lambda name: measure.summarize(times[name]).median)

        finals = {
            name: measure.rotated(self.device, self.plan, peers[name].launch, self.burst_us, self.settle_us)[1]["burst"]
            for name in ranked(measure.race(bursts, 3))[:4]
        }
        best = ranked(measure.race(finals, 7))[0]
        winners.put(key, best)
        return variants[best]()._replace(note=best)


SDPA = ("cudnn", "flash", "efficient", "math")  # the backends of torch's scaled_dot_product_attention


class SdpaBench(Bench):
    """A row with torch's scaled_dot_product_attention among its peers, once for each backend."""

    def sdpa(self, backend: str) -> Peer:
        """``backend``: a name of torch's SDPBackend."""
        raise NotImplementedError

    def cudnn(self) -> Peer:
        if self.device.name == "cpu":
            raise Unavailable("cuDNN is for GPUs")
        return self.sdpa("CUDNN_ATTENTION")

    def flash(self) -> Peer:
        return self.sdpa("FLASH_ATTENTION")

    def efficient(self) -> Peer:
        if self.device.name == "cpu":
            raise Unavailable("torch's efficient attention is for GPUs")
        return self.sdpa("EFFICIENT_ATTENTION")

    def math(self) -> Peer:
        return self.sdpa("MATH")


class Failing:
    """Turns an exception into a peer's result, so that the others go on; one that costs the device is raised."""

    def __init__(self, device: Any, found: dict[str, Any]):
        self.device, self.found = device, found

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        if isinstance(error, (ImportError, Unavailable)):
            self.found.update(status="unavailable", note=str(error)[:300])
        else:
            self.found.update(measure.failed(error))
        self.device.synchronize()  # raises if the device is lost
        return True


def lines(
    family: str,
    row: Any,
    found: Mapping[str, dict[str, Any]],
    about: Mapping[str, Any],
    sets: int,
    ours: Collection[str],
) -> list[dict[str, Any]]:
    """A row's lines of the CSV, one per peer. Rows have ``size_text``, ``bytes_of(peer)`` and, where products count,
    ``flops_of(peer)``."""

    def medians(times: str) -> dict[str, float]:
        return {name: measure.summarize(peer[times]).median for name, peer in found.items() if peer.get(times)}

    median, warm = medians("times"), medians("warm_times")
    rivals = [us for name, us in median.items() if name not in ours]
    table = []
    for name, peer in found.items():
        line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        line |= {"family": family, "kernel": row.name, "size": row.size_text, "dtype": "float16", "provider": name,
                 "status": peer["status"], "note": peer["note"], "sets": sets, "bytes": row.bytes_of(name)}  # fmt: skip
        line |= {key: about[key] for key in COLUMNS if key in about}
        for key, column in (("error", "error"), ("allowed", "allowed_error")):
            if peer.get(key, "") != "":
                line[column] = f"{peer[key]:.2e}"
        if name in median:
            us = median[name]
            line |= measure.columns(measure.summarize(peer["times"]))
            line["tb_per_s"] = f"{row.bytes_of(name) / us / 1e6:.3f}"
            if row.flops_of(name):
                line["tflops"] = f"{row.flops_of(name) / us / 1e6:.1f}"
            if name in ours and rivals:
                line["over_best_peer"] = f"{min(rivals) / us:.3f}"
            if name in ours and name != "kiln" and "kiln" in median:
                line["over_kiln"] = f"{median['kiln'] / us:.3f}"
        if name in warm:
            line["warm_us"] = f"{warm[name]:.3f}"
            line["warm_tb_per_s"] = f"{row.bytes_of(name) / warm[name] / 1e6:.3f}"
        table.append(line)
    return table


# ---- all rows --------------------------------------------------------------------------------------------------------
def wanted(row: Any, peers: Sequence[str], options: argparse.Namespace) -> list[str]:
    """The requested peers that a row has."""
    tune = getattr(options, "tune", False)
    return [name for name in getattr(row, "peers", peers) if name in peers and (tune or name != "kiln-tuned")]


def race_rows(
    chosen: Sequence[Any],
    peers: Sequence[str],
    options: argparse.Namespace,
    family: str,
    columns: Sequence[str],
    bench_of: Callable[[Any, Any], Any],
    lines: Callable[..., list[dict[str, Any]]],
    told: Callable[..., str],
    counts: Callable[[str], bool],
) -> int:
    """Measures the rows one after the other, prints each and adds it to the CSV, which may have some already; returns 1
    if a peer that ``counts`` failed. ``family``: its name in the CSV's method. Rows may name their ``peers``."""
    from device import environment, make_device

    method = measure.method_of(family)
    done = {line["kernel"] for line in measure.kept(options.csv, columns, method)}
    device, start = make_device(getattr(options, "device", "cuda")), time.monotonic()
    about = environment(device) | {"method": method}
    broken, left = False, []
    for row in chosen:
        if row.name in done:
            continue
        if time.monotonic() - start > options.limit:
            left.append(row.name)
            continue
        began = time.monotonic()
        bench = bench_of(row, device)
        found = bench.run(wanted(row, peers, options), options.rounds)
        plan = getattr(bench, "plan", None)
        table = lines(row, found, about, *([plan.sets] if plan else []))
        print(f"{told(row, table)} [{time.monotonic() - began:.1f} s]", flush=True)
        broken |= any(counts(line["provider"]) and line["status"] in ("wrong", "failed") for line in table)
        if options.csv:
            measure.append(options.csv, columns, table)
        del bench, found
        gc.collect()
        if device.name == "cuda":
            device.torch.cuda.empty_cache()
    if left:
        print(f"{len(left)} rows left after {options.limit:.0f} s: {left[0]} …", file=sys.stderr)
    return int(broken)


# ---- the report ------------------------------------------------------------------------------------------------------
Lines = dict[str, dict[str, str]]  # provider → line


def read(paths: Sequence[str], family: str) -> list[tuple[str, Lines]]:
    """The rows of files, in order: what one run recorded of a row is one entry."""
    found: list[tuple[str, Lines]] = []
    for path in paths:
        at: dict[tuple[str, str], Lines] = {}
        with open(path, newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                if line["family"] != family:
                    continue
                key = line["kernel"], line["date"]
                if key not in at:
                    at[key] = {}
                    found.append((line["kernel"], at[key]))
                at[key][line["provider"]] = line
    return found


def origins(entries: Iterable[tuple[str, Lines]]) -> list[str]:
    """Where and when entries were measured, and a warning if not all by one method."""
    found = [next(iter(peers.values())) for _, peers in entries]
    told = dict.fromkeys(f"{line['gpu']}, {line['date'][:10]}, commit {line['commit']}" for line in found)
    return ["; ".join(told) or "no rows", *measure.mixed(line["method"] for line in found)]


def median_us(peers: Lines, name: str) -> float | None:
    line = peers.get(name)
    return float(line["median_us"]) if line and line["status"] == "ok" and line["median_us"] else None


def speeds(
    entries: Iterable[tuple[str, Lines]], ours: str, rivals: Callable[[Lines], Iterable[str]]
) -> dict[str, tuple[float, str]]:
    """Row → how many times as fast as the fastest of ``rivals`` we are, and which that is. An entry without us or
    without any of them says nothing; of several, the last counts."""
    found = {}
    for row, peers in entries:
        own = median_us(peers, ours)
        times: dict[str, float] = {}
        for name in rivals(peers):
            us = median_us(peers, name)
            if us is not None:
                times[name] = us
        if own is not None and times:
            best = min(times, key=times.__getitem__)
            found[row] = times[best] / own, best
    return found


def verdict(
    what: str,
    ratios: Mapping[str, tuple[float, str]],
    rows: Collection[str],
    mean: float | None = None,
    least: float | None = None,
) -> Iterator[str]:
    """What ``ratios`` say about requirements of the geometric mean and of each row; ``rows``: those that should be
    there."""
    missing = [name for name in rows if name not in ratios]
    if ratios:
        worst = min(ratios, key=lambda name: ratios[name][0])
        average, low = geometric_mean(ratio for ratio, _ in ratios.values()) or 0.0, ratios[worst][0]
        least_of_all = 0.0 if least is None else least
        holds = (mean is None or average >= mean) and low >= least_of_all
        asked = ["" if number is None else f" (asked {number:.3g})" for number in (mean, least)]
        state = "incomplete" if holds and missing else "holds" if holds else "FALLS SHORT"
        yield (
            f"{state:11} {what}: {len(ratios)} of {len(rows)} rows, geometric mean {average:.3f}{asked[0]}, least "
            f"{low:.3f}{asked[1]}: {worst} ({ratios[worst][1]})"
        )
        below = [f"{name} {ratio:.3f} ({best})" for name, (ratio, best) in ratios.items() if ratio < least_of_all]
        if len(below) > 1:
            yield f"{'':11} below {least_of_all:.3g}: {'; '.join(below)}"
    else:
        yield f"{'missing':11} {what}: none of {len(rows)} rows"


def errors(entries: Iterable[tuple[str, Lines]], gate: Gate) -> Iterator[str]:
    """The largest error relative to the best peer's, and everything that is wrong or failed."""
    worst: tuple[float, str] = 0.0, ""
    wrong: dict[tuple[str, str], str] = {}
    for row, peers in entries:
        known = [float(line["error"]) for name, line in peers.items() if name in gate.measures and line["error"]]
        for name, line in peers.items():
            wrong.pop((row, name), None)
            if line["status"] in ("wrong", "failed"):
                wrong[row, name] = f"{row} {name} {line['status']}: {line['note']}"
            if name in gate.ours and name not in gate.alone and known and line["error"]:
                worst = max(worst, (float(line["error"]) / min(known), f"{row} {name}"))
    if worst[1]:
        holds = "holds" if worst[0] <= MAY else "FALLS SHORT"
        yield f"{holds:11} errors: at most {worst[0]:.2f} of the best peer's (asked {MAY}): {worst[1]}"
    for text in wrong.values():
        yield f"{'wrong':11} {text}"

"""Recorded results: their file, the table on the terminal, the lines of a CSV. outputs.py writes files."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import measure
import verdict
from cases import FAMILIES, select

Record = dict[str, Any]

# Columns of the tables, in this order; others follow in order of appearance.
ORDER = ("kiln", "kiln+pdl", "kiln-lists", "torch", "inductor", "quack", "triton", "cuda-naive", "cuda", "ceiling")


def providers(records: list[Record]) -> list[str]:
    seen = {name for record in records for name in record["peers"]}
    return [name for name in ORDER if name in seen] + sorted(seen - set(ORDER))


@dataclass
class Results:
    """Everything a run recorded. Rows that are measured again replace the older ones."""

    environment: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Results:
        """What --json or --csv wrote; raises `ValueError` for anything else."""
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        if not text.lstrip().startswith(("{", "[")):
            import recorded

            found = Results()
            for record, facts in recorded.read(path):
                found.merge(Results(facts, [record]))
            return found
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: expected a result file, got JSON that breaks off: {error}") from None
        if not isinstance(data, dict) or data.get("format") != 1:
            got = repr(data.get("format")) if isinstance(data, dict) else "a list"
            raise ValueError(f"{path}: expected a result file of format 1, got {got}")
        return Results(data["environment"], data["records"], data["failures"])

    def save(self, path: str | os.PathLike[str]) -> None:
        data = {"format": 1, "environment": self.environment, "failures": self.failures, "records": self.records}
        temporary = pathlib.Path(f"{path}.part")
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(data, indent=1))
        temporary.replace(path)

    def add(self, record: Record) -> None:
        name = record["case"]["name"]
        record.setdefault("environment", self.environment)
        self.records = [other for other in self.records if other["case"]["name"] != name] + [record]
        self.failures.pop(name, None)

    def merge(self, other: Results) -> None:
        self.environment = self.environment or other.environment
        for record in other.records:
            self.add(record | {"environment": record.get("environment") or other.environment})
        measured = {record["case"]["name"] for record in self.records}
        self.failures |= {name: why for name, why in other.failures.items() if name not in measured}

    def keep(self, families: Sequence[str], names: Sequence[str]) -> None:
        """Drops records of other rows; of rows that the suite no longer has, those of other families."""
        known = {case.name for case in select([])}
        self.records = [
            record for record in self.records
            if (name := record["case"]["name"]) in names
            or (name not in known and record["case"]["family"] in families)
        ]  # fmt: skip
        self.failures = {name: why for name, why in self.failures.items() if name in names}

    def ordered(self) -> list[Record]:
        """By family, each in the order of its table."""
        return sorted(self.records, key=lambda record: FAMILIES.index(record["case"]["family"]))

    def broken(self) -> list[str]:
        """Rows without a result, or in which Kiln failed or was wrong."""
        wrong = [
            record["case"]["name"]
            for record in self.records
            if any(p["status"] in ("failed", "wrong") for name, p in record["peers"].items() if name.startswith("kiln"))
        ]
        return [*wrong, *self.failures]

    def missed(self) -> list[str]:
        verdicts = [verdict.judge(record) for record in self.records]
        return [found.name for found in verdicts if found is not None and not found.passes]


# ---- text ------------------------------------------------------------------------------------------------------------
def speed(record: Record, peer: str, mode: str = "cold") -> str:
    """TB/s, or µs for a row whose requirement is in µs; the status of a peer that was not measured."""
    found = record["peers"].get(peer)
    if found is None or found["status"] == "unavailable":
        return ""
    if found["status"] != "ok":
        return found["status"]
    if mode not in found:
        return ""
    if record["case"]["most_us"] is not None:
        return f"{found[mode]['median']:.2f} µs"
    return f"{found[mode]['tbs']:.2f}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def line(record: Record) -> str:
    """A row's line of output while the suite runs."""
    parts = [f"{name} {speed(record, name)}" for name in providers([record]) if speed(record, name)]
    found = verdict.judge(record)
    end = "" if found is None else " — " + ("ok" if found.passes else "; ".join(found.misses))
    return f"{record['case']['name']}: {', '.join(parts)}{end}"


def summary(results: Results) -> list[str]:
    """What a reader wants first: counts and means with and without programmatic dependent launch."""
    lines = measure.mixed((record.get("environment") or results.environment).get("method", "")
                          for record in results.records)  # fmt: skip
    for variant, label in (("kiln", "Kiln"), ("kiln+pdl", "Kiln with dependent launch")):
        found = verdict.overall(results.records, variant)
        if found.rows:
            mean = "no peer" if found.mean is None else f"{found.mean:.3f}× the best peer (asked: {verdict.MEAN})"
            of = "" if found.mean_of_ceiling is None else f", {found.mean_of_ceiling:.3f}× the ceiling"
            lines.append(f"{label}: {found.passed} of {found.rows} rows as asked; geometric mean {mean}{of}")
    return lines


def notes(results: Results) -> Iterator[str]:
    """Why a figure is missing, each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in results.ordered():
        for name, found in record["peers"].items():
            if found["status"] != "ok":
                reasons.setdefault((name, f"{found['status']}: {found['note']}"), []).append(record["case"]["name"])
    for (name, why), where in reasons.items():
        yield f"{name} {why} ({where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''})"
    for name, why in results.failures.items():
        yield f"{name}: {why}"


def show(results: Results) -> None:
    """The table on the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    columns = providers(results.records)
    # A pipe or a log has no width, and often a limit on line length.
    wide = not sys.stdout.isatty()
    console = Console(width=240) if wide else Console()
    about = results.environment
    title = f"{about.get('gpu', '?')}, driver {about.get('driver', '?')}, commit {about.get('commit', '?')}; TB/s"
    table = Table(title=title, caption=about.get("method", ""), title_justify="left", caption_justify="left",
                  box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0) if wide else (0, 1), show_edge=False)  # fmt: skip
    table.add_column("row", no_wrap=True)
    for column in (*columns, "warm", "±%", "×peer", "×ceiling", "reported"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("as asked", no_wrap=wide)
    family = ""
    for record in results.ordered():
        found = verdict.judge(record)
        if family not in ("", record["case"]["family"]):
            table.add_section()
        family = record["case"]["family"]
        end = ["", "", "", ""] if found is None else [
            speed(record, "kiln", "warm"), f"{100 * found.spread:.1f}", ratio(found.over_peer), ratio(found.of_ceiling)
        ]  # fmt: skip
        state = "" if found is None else "[green]yes[/]" if found.passes else f"[red]no: {', '.join(found.limits)}[/]"
        cells = [speed(record, name) for name in columns]
        table.add_row(record["case"]["name"], *cells, *end, record["case"]["reported"], state)
    console.print(table)
    for text in (*notes(results), *summary(results)):
        console.print(text, highlight=False, markup=False, soft_wrap=True)


class Progress:
    """A bar on a terminal; a plain line per row elsewhere."""

    def __init__(self, rows: int):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bar = Bar(TextColumn("{task.description:44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                       TimeRemainingColumn(), console=self.console, disable=not self.console.is_terminal)  # fmt: skip
        self.task = self.bar.add_task("", total=rows)

    def __enter__(self) -> Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.stop()

    def phase(self, row: str, phase: str) -> None:
        self.bar.update(self.task, description=f"{row} {phase}"[:44])

    def row(self, text: str) -> None:
        self.console.print(text, markup=False)
        self.bar.advance(self.task)


# What a line of the CSV says about where it was measured.
_FACTS = ("gpu", "driver", "cuda", "kiln", "torch", "triton", "quack", "commit", "date", "method")


# ---- files -----------------------------------------------------------------------------------------------------------
def table(results: Results) -> Iterator[dict[str, Any]]:
    """One flat line per row and provider."""
    for record in results.ordered():
        case, about = record["case"], record.get("environment") or results.environment
        for name in providers([record]):
            found = record["peers"][name]
            cold, warm = found.get("cold", {}), found.get("warm", {})
            judged = verdict.judge(record, name) if name.startswith("kiln") else None
            yield {
                "family": case["family"],
                "kernel": case["kernel"],
                "size": case["size"],
                "dtype": case["dtype"],
                "provider": name,
                "status": found["status"],
                "median_us": _rounded(cold.get("median"), 3),
                "p25_us": _rounded(cold.get("p25"), 3),
                "p75_us": _rounded(cold.get("p75"), 3),
                "min_us": _rounded(cold.get("least"), 3),
                "max_us": _rounded(cold.get("most"), 3),
                "tb_per_s": _rounded(cold.get("tbs"), 3),
                "warm_us": _rounded(warm.get("median"), 3),
                "warm_tb_per_s": _rounded(warm.get("tbs"), 3),
                "over_best_peer": _rounded(judged.over_peer, 3) if judged else "",
                "of_ceiling": _rounded(judged.of_ceiling, 3) if judged else "",
                "as_asked": "" if judged is None else "yes" if judged.passes else "; ".join(judged.misses),
                "error": "" if found.get("error") is None else f"{found['error']:.2e}",
                "allowed_error": "" if record["allowed_error"] is None else f"{record['allowed_error']:.2e}",
                "rounds": cold.get("rounds", ""),
                "sets": record["plan"].get("sets", ""),
                "bytes": case["reads"] + case["writes"],
                "note": found["note"],
                **{name: record["state"].get(name, "") for name in ("sm_mhz", "memory_mhz", "watts")},
                **{name: about.get(name, "") for name in _FACTS},
            }


def _rounded(value: float | None, digits: int) -> float | str:
    return "" if value is None else round(value, digits)

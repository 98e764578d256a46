"""Results read back from a CSV that report.py wrote: all of its columns; the rest of a row's description comes from the
suite.

A JSON file holds everything recorded; a CSV lacks the reasons why whole rows failed, which arrays a row reads and
writes, and the quartiles of warm caches. Rows that still exist in the suite get its description, so that its
requirements apply to the recorded figures too.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any

from cases import FAMILIES, Case, select

Line = dict[str, str]

# Without these columns a row means nothing; others may be missing.
NEEDED = ("family", "kernel", "size", "dtype", "provider", "status", "median_us", "tb_per_s", "bytes")
COLD = {"median": "median_us", "p25": "p25_us", "p75": "p75_us", "least": "min_us", "most": "max_us", "tbs": "tb_per_s"}
WARM = {"median": "warm_us", "tbs": "warm_tb_per_s"}
STATE = ("sm_mhz", "memory_mhz", "watts")
FACTS = ("gpu", "driver", "cuda", "kiln", "torch", "triton", "quack", "commit", "date", "method")


def read(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The records of a CSV, each with the facts about where it was measured, in order."""
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        try:
            columns = reader.fieldnames or ()
        except csv.Error:
            columns = ()
        missing = [name for name in NEEDED if name not in columns]
        if missing:
            raise ValueError(
                f"{path}: expected what `kiln bench --json` or `--csv` wrote (because a report is made of its rows), "
                f"got a file that is no JSON and as a CSV has no column {', '.join(missing)}"
            )
        known = {(case.kernel, case.size, case.dtype): case for case in select([])}
        found: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
        for line in reader:
            if line["family"] == "family":  # the header of another file that was appended to this one
                continue
            try:
                facts = {name: line[name] for name in FACTS if line.get(name)}
                # A row measured twice gives two records, and so do two machines.
                row = line["kernel"], line["size"], line["dtype"]
                key = (*row, *facts.values())
                if key not in found:
                    found[key] = _record(line, known.get(row)), facts
                found[key][0]["peers"][line["provider"]] = _peer(line)
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
    return iter(found.values())


def _number(line: Line, name: str) -> float | int | None:
    text = (line.get(name) or "").strip()
    try:
        return (int(text) if text.isdecimal() else float(text)) if text else None
    except ValueError:
        raise ValueError(f"{name}: expected a number or nothing, got {text!r}") from None


def _numbers(line: Line, columns: dict[str, str]) -> dict[str, Any]:
    return {key: value for key, name in columns.items() if (value := _number(line, name)) is not None}


def _record(line: Line, known: Case | None) -> dict[str, Any]:
    """The record of a row, without its peers so far."""
    if line["family"] not in FAMILIES:
        raise ValueError(f"family: expected one of {', '.join(FAMILIES)}, got {line['family']!r}")
    moved = int(_number(line, "bytes") or 0)
    if not moved:
        raise ValueError("bytes: expected a number above 0 (because speeds are bytes over time), got none")
    if known is None or known.traffic != moved or known.family != line["family"]:
        # A row that the suite no longer has: its bytes are known, but not how they divide.
        shape = tuple(map(int, re.findall(r"\d+", line["size"]))) or (0,)
        known = Case(line["family"], line["kernel"], shape, moved, 0, (1, 0, moved), line["dtype"], size=line["size"])
    case = {key: value for key, value in dataclasses.asdict(known).items() if key != "params"}
    return {
        "case": case | {"name": known.name, "shape": list(known.shape), "streams": list(known.streams)},
        "plan": _numbers(line, {"sets": "sets"}),
        "state": _numbers(line, {name: name for name in STATE}),
        "allowed_error": _number(line, "allowed_error"),
        "peers": {},
    }


def _peer(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {"peer": line["provider"], "status": line["status"], "note": line.get("note") or ""}
    error = _number(line, "error")
    if error is not None:
        found["error"] = error
    cold, warm = _numbers(line, COLD), _numbers(line, WARM)
    if "median" in cold:
        # Missing columns of a shorter CSV: the spread is unknown.
        spread = dict.fromkeys(("p25", "p75", "least", "most"), cold["median"])
        found["cold"] = spread | cold | {"rounds": int(_number(line, "rounds") or 0)}
    if "median" in warm:
        found["warm"] = warm
    if found["status"] == "ok" and "cold" not in found:
        raise ValueError("median_us: expected a number (because the status is ok), got nothing")
    return found

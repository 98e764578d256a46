"""The command line of benchmarks that race peers row by row: which rows, which peers, where the CSV is."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import measure


def make_parser(doc: str, known: Sequence[str]) -> argparse.ArgumentParser:
    """``known``: all peers."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rows", default="", help="only rows whose name has these words")
    parser.add_argument("--peers", default=",".join(known), help=f"some of {','.join(known)} (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="bursts of each peer (default: 9)")
    parser.add_argument("--csv", help="append rows to this file")
    return parser


def choose(
    parser: argparse.ArgumentParser, options: argparse.Namespace, every: Iterable[Any], known: Sequence[str]
) -> tuple[list[Any], list[str]]:
    """The requested rows and peers; exits if there are none."""
    peers = options.peers.split(",")
    if unknown := [name for name in peers if name not in known]:
        parser.error(f"unknown {', '.join(unknown)} (peers: {', '.join(known)})")
    chosen = [row for row in every if set(options.rows.split()) <= set(row.name.split())]
    if not chosen:
        parser.error(f"no row has the words {options.rows!r}")
    return chosen, peers


def race_rows(
    chosen: Sequence[Any],
    peers: Sequence[str],
    options: argparse.Namespace,
    method: str,
    columns: Sequence[str],
    bench_of: Callable[[Any, Any], Any],
    lines: Callable[..., list[dict[str, Any]]],
    told: Callable[..., str],
    counts: Callable[[str], bool],
) -> int:
    """Measures the rows one after the other, prints each and adds it to the CSV; returns 1 if a peer that ``counts``
    failed. ``method``: the name of the method in the CSV."""
    from device import environment, make_device

    device = make_device("cuda")
    about = environment(device) | {"method": re.sub("v1", f"{method} v1", measure.METHOD)}
    broken = False
    for row in chosen:
        table = lines(row, bench_of(row, device).run(peers, options.rounds), about)
        print(told(row, table), flush=True)
        broken |= any(counts(line["provider"]) and line["status"] != "ok" for line in table)
        if options.csv:
            measure.append(options.csv, columns, table)
        device.torch.cuda.empty_cache()
    return int(broken)

"""The files that a report is written to: JSON, CSV, a plot, a page."""

from __future__ import annotations

import csv as csv_format
import pathlib
import sys

import html_report
import plots
import report


def write(results: report.Results, *, csv: str | None = None, json_file: str | None = None, plot: str | None = None,
          html: str | None = None) -> list[str]:  # fmt: skip
    """Writes the requested files; returns their names."""
    written = []
    for name in filter(None, (csv, plot, html)):
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
    if json_file:
        results.save(json_file)
        written.append(json_file)
    if csv:
        lines = list(report.table(results))
        with open(csv, "w", newline="") as file:
            writer = csv_format.DictWriter(file, list(lines[0]) if lines else ["family"])
            writer.writeheader()
            writer.writerows(lines)
        written.append(csv)
    if plot or html:
        image = plots.png(results)
        if plot and image is not None:
            pathlib.Path(plot).write_bytes(image)
            written.append(plot)
        if plot and image is None:
            why = "no row was measured" if not results.records else "matplotlib is not installed"
            print(f"kiln bench: no plot ({why})", file=sys.stderr)
        if html:
            pathlib.Path(html).write_text(html_report.page(results, image))
            written.append(html)
    return written

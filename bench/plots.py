"""Speed over size, a panel per kernel, as one PNG."""

from __future__ import annotations

import io
from typing import Any

import report

# Kiln stands out; the ceiling is out of reach.
_STYLE: dict[str, dict[str, Any]] = {
    "kiln": {"color": "#c1121f", "linewidth": 2.4, "marker": "o", "zorder": 5},
    "kiln+pdl": {"color": "#f4a261", "linewidth": 1.8, "marker": "o", "zorder": 4},
    "kiln-lists": {"color": "#e76f51", "linestyle": ":", "marker": "o"},
    "torch": {"color": "#6c757d", "marker": "s"},
    "inductor": {"color": "#1d3557", "marker": "^"},
    "quack": {"color": "#2a9d8f", "marker": "D"},
    "triton": {"color": "#7b2cbf", "marker": "v"},
    "cuda": {"color": "#588157", "marker": "P"},
    "cuda-naive": {"color": "#a3b18a", "linestyle": ":", "marker": "P"},
    "ceiling": {"color": "black", "linestyle": "--", "linewidth": 1.0},
}


def panels(results: report.Results) -> dict[str, list[dict[str, Any]]]:
    """Records per panel: sweeps of a kernel over the length of its rows; its other sizes; single rows, in µs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in results.ordered():
        found.setdefault(_title(record), []).append(record)
    sweeps: dict[str, list[dict[str, Any]]] = {}
    for title, records in found.items():
        kernel = records[0]["case"]["kernel"]
        # Fewer than three points are no curve.
        whole = len(records) > 2 or records[0]["case"]["most_us"] is not None
        sweeps.setdefault(title if whole else kernel, []).extend(records)
    return sweeps


def _title(record: dict[str, Any]) -> str:
    case = record["case"]
    if case["most_us"] is not None:
        return f"one row of {case['shape'][-1]}"
    return f"{case['kernel']}, {case['shape'][0]} rows" if len(case["shape"]) == 2 else case["kernel"]


def _label(record: dict[str, Any], title: str) -> str:
    """What distinguishes a record in its panel."""
    case = record["case"]
    if case["most_us"] is not None:
        return case["kernel"]
    return str(case["shape"][-1]) if "rows" in title or case["family"] == "rope" else case["size"]


def png(results: report.Results) -> bytes | None:
    """The picture, or None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = panels(results)
    if not groups:
        return None
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.2 * columns, 3.6 * rows), squeeze=False)
    for axis, (title, records) in zip(axes.flat, groups.items(), strict=False):
        _panel(axis, title, records)
    for axis in list(axes.flat)[len(groups) :]:
        axis.axis("off")
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=min(10, len(handles) or 1), frameon=False)
    figure.tight_layout(rect=(0, 0.02 + 0.18 / (3.6 * rows), 1, 1))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def _panel(axis: Any, title: str, records: list[dict[str, Any]]) -> None:
    single = records[0]["case"]["most_us"] is not None
    if not single:
        records = sorted(records, key=lambda record: record["case"]["reads"])
    for name in report.providers(records):
        points = [(i, record["peers"][name]["cold"]) for i, record in enumerate(records)
                  if "cold" in record["peers"].get(name, {})]  # fmt: skip
        if not points:
            continue
        style = _STYLE.get(name, {})
        # Quartiles of time become quartiles of speed: bytes over time.
        values = [[cold[key] if single else cold["tbs"] * cold["median"] / cold[key] for _, cold in points]
                  for key in ("median", "p25", "p75")]  # fmt: skip
        places = [i for i, _ in points]
        axis.plot(places, values[0], label=name, markersize=4, **style)
        axis.fill_between(places, values[1], values[2], color=style.get("color"), alpha=0.15, linewidth=0)
    axis.set_title(title, fontsize=10)
    axis.set_xticks(range(len(records)), [_label(record, title) for record in records], fontsize=8)
    axis.set_ylabel("µs" if single else "TB/s", fontsize=8)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)

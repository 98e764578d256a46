"""One self-contained HTML page of a run: verdicts, tables, the picture, the method, the machine. Nothing is fetched."""

from __future__ import annotations

import base64
import html
import inspect
from typing import Any

import measure
import report
import verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1280px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid #e3e3e3; white-space: nowrap; }
th:first-child, td:first-child, td.text { text-align: left; } thead th { border-bottom: 2px solid #999; }
td.best { font-weight: 700; } td.yes { color: #15722b; } td.no { color: #b00020; } td.small { color: #777; }
.scroll { overflow-x: auto; } img { max-width: 100%; } pre { white-space: pre-wrap; font-size: 13px; color: #444; }
"""


def _cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{html.escape(text)}</td>' if kind else f"<td>{html.escape(text)}</td>"


def _spread(record: dict[str, Any], name: str) -> str:
    cold = record["peers"].get(name, {}).get("cold")
    if not cold:
        return ""
    return (f"{cold['median']:.2f} µs, quartiles {cold['p25']:.2f}–{cold['p75']:.2f}, "
            f"{cold['least']:.2f}–{cold['most']:.2f} over {cold['rounds']} rounds")  # fmt: skip


def _table(records: list[dict[str, Any]]) -> str:
    columns = report.providers(records)
    heads = ["row", *columns, "warm", "× peer", "× ceiling", "as asked", "peers on another day"]
    lines = ["<table><thead><tr>", *(f"<th>{html.escape(head)}</th>" for head in heads), "</tr></thead><tbody>"]
    for record in records:
        found = verdict.judge(record)
        times = {name: verdict.microseconds(record, name) for name in columns if name != "ceiling"}
        best = min((time for time in times.values() if time is not None), default=None)
        lines.append(f"<tr><td>{html.escape(record['case']['name'])}</td>")
        for name in columns:
            kind = "best" if best is not None and times.get(name) == best else ""
            title = html.escape(_spread(record, name) or record["peers"].get(name, {}).get("note", ""))
            lines.append(f'<td class="{kind}" title="{title}">{html.escape(report.speed(record, name))}</td>')
        lines.append(_cell(report.speed(record, "kiln", "warm"), "small"))
        lines.append(_cell(report.ratio(found.over_peer) if found else ""))
        lines.append(_cell(report.ratio(found.of_ceiling) if found else ""))
        if found is None:
            lines.append(_cell(""))
        else:
            lines.append(_cell("yes" if found.passes else "; ".join(found.misses), "yes" if found.passes else "no"))
        lines.append(_cell(record["case"]["reported"], "small") + "</tr>")
    return "<div class=scroll>" + "".join(lines) + "</tbody></table></div>"


def page(results: report.Results, image: bytes | None) -> str:
    """The page. Hovering over a figure shows its spread."""
    families: dict[str, list[dict[str, Any]]] = {}
    for record in results.ordered():
        families.setdefault(record["case"]["family"], []).append(record)
    about = results.environment
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Kiln benchmarks</title>",
        f"<style>{_STYLE}</style><h1>Kiln on {html.escape(str(about.get('gpu', 'an unknown GPU')))}</h1>",
        "<p>TB/s at the fewest bytes the operation can move; µs for single rows. Inputs, outputs and state come from "
        "memory, not from a cache; the column <i>warm</i> is Kiln with operands left in the cache. Bold: fastest.</p>",
        "<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in report.summary(results)) + "</ul>",
    ]
    for family, records in families.items():
        parts.append(f"<h2>{html.escape(family)}</h2>{_table(records)}")
    if image is not None:
        data = base64.b64encode(image).decode()
        parts.append(f'<h2>Speed over size</h2><img alt="" src="data:image/png;base64,{data}">')
    reasons = list(report.notes(results))
    if reasons:
        parts.append("<h2>Not measured</h2><ul>" + "".join(f"<li>{html.escape(why)}</li>" for why in reasons) + "</ul>")
    ceilings = [(record["case"]["name"], record["peers"]["ceiling"]["note"]) for record in results.ordered()
                if record["peers"].get("ceiling", {}).get("status") == "ok"]  # fmt: skip
    if ceilings:
        rows = "".join(f"<tr><td>{html.escape(name)}</td>{_cell(note, 'text')}</tr>" for name, note in ceilings)
        parts.append(f"<h2>What the ceilings are</h2><table><tbody>{rows}</tbody></table>")
    parts.append(f"<h2>Method</h2><pre>{html.escape(inspect.cleandoc(measure.__doc__ or ''))}</pre>")
    facts = "".join(f"<tr><td>{html.escape(str(k))}</td>{_cell(str(v), 'text')}</tr>" for k, v in about.items())
    parts.append(f"<h2>Machine</h2><table><tbody>{facts}</tbody></table></html>")
    return "\n".join(parts)

"""A report as one self-contained page: the text report, and drawings of the layouts."""

from __future__ import annotations

import html
import os
from typing import Any

from kiln.explain.lines import by_line, is_scattered, source
from kiln.explain.text import summary

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td { padding: .15rem .7rem .15rem 0; vertical-align: top; }
td:first-child { color: #5a6675; white-space: nowrap; }
pre { margin: 0; font: 13px/1.4 ui-monospace, monospace; } .line td { border-top: 1px solid #e4e8ee; }
.note { color: #33567e; font-size: 13px; } .bad { color: #a02c2c; font-weight: 600; }
svg { display: block; margin: .4rem 0 1.4rem; } code { font: 13px ui-monospace, monospace; }
@media (prefers-color-scheme: dark) { body { background: #14181e; color: #d8dee8; } .note { color: #8db4e2; }
  .bad { color: #f08a8a; } .line td { border-color: #2a323d; } td:first-child { color: #93a0b0; } }
"""
_CELL = 13


def write(data: dict[str, Any]) -> str:
    """The page."""
    escape = html.escape
    title = f"{escape(data['kernel'])} for {escape(data['target'])}, grid {' x '.join(map(str, data['grid']))}"
    page = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1><table>",
    ]
    page += [f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in summary(data)]
    page.append("</table>")
    file = ""
    for (name, line), notes in by_line(data).items():
        if name != file:
            page.append(("</table>" if file else "") + f"<h2>{escape(os.path.basename(name))}</h2><table>")
            file = name
        said = "".join(
            f"<div class='note{' bad' if 'uncoalesced' in note or 'conflicts' in note else ''}'>{escape(note)}</div>"
            for note in notes
        )
        page.append(f"<tr class='line'><td>{line}</td><td><pre>{escape(source(name, line))}</pre>{said}</td></tr>")
    page.append("</table>" if file else "")
    placement = data.get("placement")
    if placement:
        scattered = sum(is_scattered(access) for access in placement["accesses"])
        if scattered:
            page.append(f"<p class='bad'>{scattered} of {len(placement['accesses'])} accesses are uncoalesced.</p>")
        page.append(
            "<h2>Layouts</h2><p>Who holds an element: one colour a lane of the first warp, grey the other warps; the "
            "number is the lane. The first elements of each layout: of two dimensions the first rows and columns.</p>"
        )
        shown = {value["layout"] for value in placement["values"]}
        for index, layout in enumerate(placement["layouts"]):
            if index in shown:
                page.append(_draw(layout))
    page.append("</body></html>\n")
    return "\n".join(page)


def _draw(layout: dict[str, Any]) -> str:
    rows, line = [row[:32] for row in layout["owners"][:16]], layout["owners"][0]
    flat = len(layout["shape"]) == 1
    if flat:
        rows = [line[start : start + 32] for start in range(0, len(line), 32)]
    width, height = len(rows[0]) * _CELL, len(rows) * _CELL
    cells = []
    for y, row in enumerate(rows):
        for x, (warp, lane, register) in enumerate(row):
            fill = f"hsl({lane * 360 // 32} 70% 72%)" if warp == 0 else f"hsl(0 0% {92 - 6 * (warp % 8)}%)"
            left, top = x * _CELL, y * _CELL
            cells.append(
                f"<rect x='{left}' y='{top}' width='{_CELL - 1}' height='{_CELL - 1}' fill='{fill}'>"
                f"<title>{32 * y + x if flat else (y, x)}: warp {warp}, lane {lane}, register {register}</title></rect>"
                f"<text x='{left + _CELL / 2 - 0.5}' y='{top + 9}' font-size='7' text-anchor='middle'>{lane}</text>"
            )
    return (
        f"<p><code>{html.escape(layout['name'])}</code><br>{layout['registers']} registers of each of "
        f"{layout['threads']} threads</p><svg width='{width}' height='{height}'>{''.join(cells)}</svg>"
    )

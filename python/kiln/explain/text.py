"""A report for the terminal."""

from __future__ import annotations

import os
from typing import Any

from kiln.explain.lines import by_line, duration, size, source


def write(data: dict[str, Any]) -> str:
    """The report as lines of text."""
    lines = [f"{data['kernel']} for {data['target']}, grid {' x '.join(map(str, data['grid']))}"]
    for title, text in summary(data):
        lines.append(f"  {title:<10} {text}")
    file = ""
    for (name, line), notes in by_line(data).items():
        if name != file:
            lines += ["", f"{os.path.basename(name)}"]
            file = name
        lines.append(f"{line:>5}  {source(name, line)}")
        lines += [f"{'':>5}    {note}" for note in notes]
    return "\n".join(lines)


def summary(data: dict[str, Any]) -> list[tuple[str, str]]:
    """The head of the report, before its lines: pairs of a title and a sentence."""
    rows: list[tuple[str, str]] = []
    if data["signature"]:
        rows.append(("signature", data["signature"]))
    if data["assumed"]:
        rows.append(("assumed", ", ".join(f"{name} = {data['values'][name]}" for name in data["assumed"])))
    rows.append(("resources", _resources(data)))
    if data.get("occupancy"):
        held = data["occupancy"]
        rows.append((
            "occupancy",
            f"{_several(held['blocks'], 'block')}, {held['warps']} of {held['most']} warps of a multiprocessor; "
            f"limited by {held['limiter']}",
        ))  # fmt: skip
    placement = data.get("placement")
    if placement and placement["roles"]:
        rows.append(("roles", "; ".join(_role(role) for role in placement["roles"])))
    if placement and any(channel["bytes"] for channel in placement["channels"]):
        rows.append((
            "channels",
            "; ".join(f"{c['slots']} slots of {size(c['bytes'])}" for c in placement["channels"] if c["bytes"]),
        ))  # fmt: skip
    work = data["work"]
    bound = "up to " if work["estimated"] else ""
    arrays = [
        " and ".join(
            f"{verb} {bound}{size(array[way])}"
            for way, verb in (("read", "reads"), ("written", "writes"))
            if array[way]
        )
        + f" of {array['argument']}"
        for array in work["arrays"]
    ]
    rows.append(("memory", "; ".join(arrays) or "touches none that is known"))
    operations = [
        f"{count:.3g} {kind} {element}"
        for kind, counts in work["operations"].items()
        for element, count in counts.items()
    ]
    rows.append(("operations", ", ".join(operations) or "none on numbers"))
    if "roofline" in data:
        roof = data["roofline"]
        parts = sorted(roof["seconds"].items(), key=lambda part: -part[1])
        rows.append((
            "roofline",
            f"{duration(roof['least'])} on {data['machine']}, by {roof['limiter']} ("
            + ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts)
            + (f"; without {', '.join(roof['unknown'])}" if roof["unknown"] else "")
            + ")",
        ))  # fmt: skip
    if work["sampled"] < work["programs"]:
        rows.append(("sample", f"{work['sampled']} of {work['programs']} program instances"))
    return rows


def _resources(data: dict[str, Any]) -> str:
    found = data["resources"]
    if data["kind"] != "cuda":
        return f"{found['vector_registers']} vector registers, {found['stack_bytes']} bytes of stack"
    registers = (
        "registers and spills unknown (no ptxas)"
        if found["registers"] is None
        else f"{found['registers']} registers a thread, "
        + (f"{size(found['spill_bytes'])} spilled" if found["spill_bytes"] else "no spills")
    )
    cluster = f", clusters of {found['cluster']}" if found["cluster"] > 1 else ""
    return f"{found['threads']} threads a block{cluster}, {registers}, {size(found['shared_bytes'])} of shared memory"


def _role(role: dict[str, Any]) -> str:
    registers = f" with {role['registers']} registers" if role["registers"] else ""
    return f"{role['name']}: {_several(role['warps'], 'warp')}{registers}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

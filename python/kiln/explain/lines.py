"""The facts of a report, by line of the kernel's source."""

from __future__ import annotations

import linecache
from typing import Any


def innermost(frames: list[list[Any]]) -> tuple[str, int] | None:
    """The file and the line of an op itself, not of the calls around it."""
    return (frames[0][0], frames[0][1]) if frames and frames[0][1] else None


def by_line(data: dict[str, Any]) -> dict[tuple[str, int], list[str]]:
    """Short sentences for each line that has any, in the order of files and lines."""
    notes: dict[tuple[str, int], list[str]] = {}

    def note(item: dict[str, Any], text: str) -> None:
        place = innermost(item["frames"])
        if place is not None and text not in notes.setdefault(place, []):
            notes[place].append(text)

    for loop in data["work"]["loops"]:
        turns = loop["turns"]
        note(loop, f"{'at least ' if loop['estimated'] else ''}{turns:.3g} turns" if turns != 1 else "1 turn")
    for access in data["work"]["accesses"]:
        moved = "an unknown number of bytes" if access["kind"] == "other" else size(access["bytes"])
        verb = {"load": "reads", "store": "writes", "atomic": "reads and writes", "other": "moves"}[access["kind"]]
        note(access, f"{verb} {'up to ' if access['estimated'] else ''}{moved}")
    placement = data.get("placement")
    if placement is None:
        return dict(sorted(notes.items()))
    for access in placement["accesses"]:
        text = f"{access['bits']} bits a thread"
        if access["sectors"]:
            text += f", {access['sectors']} sectors a warp"
            if is_scattered(access):
                text += f" where {access['ideal']} would do: uncoalesced"
        note(access, text)
    for exchange in placement["exchanges"]:
        text = {"store": "to", "load": "from", "shuffle": "across lanes, "}[exchange["kind"]]
        where = "" if exchange["kind"] == "shuffle" else " shared memory, "
        extra = exchange["wavefronts"] - exchange["minimum"]
        conflicts = f", bank conflicts ({exchange['wavefronts']} passes, {exchange['minimum']} needed)" if extra else ""
        note(exchange, f"{text}{where}{size(exchange['bytes'])}{conflicts}")
    for product in placement["products"]:
        sides = "x".join(map(str, product["shape"]))
        role = f" in role {product['role']}" if product["role"] else ""
        note(product, f"{product['instruction']} {sides} {product['type']}{role}")
    for value in placement["values"]:
        if value["op"] in ("tile.load", "tile.desc_load", "tile.dot", "tile.reduce", "tile.scan", "kgpu.local_load"):
            note(value, f"layout {placement['layouts'][value['layout']]['name']}")
    for channel in placement["channels"]:
        if channel["bytes"]:
            note(channel, f"channel of {channel['slots']} slots of {size(channel['bytes'])}")
    for remark in data["remarks"]:
        note(remark, remark["message"])
    return dict(sorted(notes.items()))


def is_scattered(access: dict[str, Any]) -> bool:
    """Whether a warp moves over 25 % more sectors than it needs."""
    return bool(access["sectors"]) and access["sectors"] > 1.25 * access["ideal"]


def source(file: str, line: int) -> str:
    return linecache.getline(file, line).rstrip()


def size(count: float) -> str:
    """A number of bytes in GB, MB or kB with three digits."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"

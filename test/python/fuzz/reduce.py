"""Shrinks a failing program: tries one simplification after another and keeps those after which it still fails
alike."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np

from .evaluate import Frame, Value, places
from .generate import EFFECTS, needed
from .kinds import Undefined
from .memory import row_major
from .program import Block, Buffer, Node, Program, Var, walk


def substitute(program: Program, old: Var, new: Var) -> None:
    """Replaces every use of one variable by another."""

    def swap(block: Block) -> None:
        block.results = [new if v is old else v for v in block.results]

    swap(program.body)
    for _, node in walk(program.body):
        node.args = [new if v is old else v for v in node.args]
        for key, value in node.attrs.items():
            if value is old:
                node.attrs[key] = new
            elif isinstance(value, Block):
                swap(value)
        for block in node.blocks:
            swap(block)


def recorded(program: Program) -> list[dict[Var, Value]]:
    """The value of every variable of the outermost block, for each instance."""
    memory = {b.name: b.data.copy() for b in program.buffers}
    memory.update({f"{b.name}!": np.zeros(b.data.size) for b in program.buffers if b.kind.is_float})
    found = []
    for place in places(program.grid):
        frame = Frame(program, memory, place)
        frame.run(program.body)
        found.append(frame.env)
    return found


def as_input(program: Program, node: Node, held: list[dict[Var, Value]]) -> list[Node]:
    """Loads that return what the node computed."""
    loads = []
    for var in node.results:
        names = {b.name for b in program.buffers}
        name = next(n for n in map("q{}".format, itertools.count()) if n not in names)
        data = np.concatenate([env[var].data.reshape(-1) for env in held])
        program.buffers.append(Buffer(name, var.kind, data, "input"))
        attrs = {"buffer": name, "shape": var.shape, "strides": row_major(var.shape), "base": 0,
                 "lane": max(var.size, 1), "limit": None, "masked": False, "other": None, "count_text": "",
                 "plain": True}  # fmt: skip
        loads.append(Node("load", [], attrs, [var]))
    return loads


Edit = Callable[[Program], bool]


def at(program: Program, number: int) -> tuple[Block, Node]:
    return list(walk(program.body))[number]


def drop(number: int) -> Edit:
    def edit(program: Program) -> bool:
        block, node = at(program, number)
        if node.op not in EFFECTS or node.results:
            return False
        _remove(program, block, node)
        return True

    return edit


def _remove(program: Program, block: Block, node: Node) -> None:
    for _, owner in walk(program.body):
        if block in owner.blocks and isinstance(owner.attrs.get("place"), int):
            owner.attrs["place"] -= block.nodes.index(node) < owner.attrs["place"]
    block.nodes.remove(node)


def make_input(number: int) -> Edit:
    def edit(program: Program) -> bool:
        block, node = at(program, number)
        if block is not program.body or not node.results or node.attrs.get("plain"):
            return False
        place = block.nodes.index(node)
        block.nodes[place : place + 1] = as_input(program, node, recorded(program))
        return True

    return edit


def replace(number: int, choice: int) -> Edit:
    """Replaces the first result by an operand of the same type."""

    def edit(program: Program) -> bool:
        block, node = at(program, number)
        known = [*node.args]
        for _, owner in walk(program.body):
            if block in owner.blocks:
                known += block.params
        if not node.results or choice >= len(known) or not known[choice].like(node.results[0]):
            return False
        substitute(program, node.results[0], known[choice])
        return len(node.results) == 1

    return edit


def unwrap(number: int, side: int) -> Edit:
    """Replaces a structured node by the contents of its block, executed once."""

    def edit(program: Program) -> bool:
        block, node = at(program, number)
        if side >= len(node.blocks) or (node.op == "loop" and node.attrs["exit"]):
            return False
        inner = node.blocks[side]
        if node.op == "loop":
            index = Node("created", [], {"way": "full", "shape": (), "number": node.attrs["start"],
                                         "kind": inner.params[0].kind}, [inner.params[0]])  # fmt: skip
            inner.nodes.insert(0, index)
        formal = inner.params[1:] if node.op == "loop" else inner.params
        place = block.nodes.index(node)
        results = list(inner.results)
        block.nodes[place : place + 1] = inner.nodes
        for old, new in zip(formal, node.args, strict=False):
            substitute(program, old, new)
            results = [new if r is old else r for r in results]
        for old, new in zip(node.results, results, strict=True):
            substitute(program, old, new)
        return True

    return edit


def lean(number: int, part: int) -> Edit:
    """A loop with fewer iterations, without its exit or one of its values; a function without its early return."""

    def edit(program: Program) -> bool:
        _, node = at(program, number)
        attrs = node.attrs
        if node.op == "loop":
            if part == 0 and not isinstance(attrs["stop"], str) and attrs["stop"] != attrs["start"] + attrs["step"]:
                attrs["stop"] = attrs["start"] + attrs["step"]
            elif part == 1 and isinstance(attrs["stop"], str):
                attrs["stop"] = program.scalars[attrs["stop"]]
            elif part == 2 and attrs["exit"]:
                attrs.update(exit=None, condition=None)
            elif part == 3 and attrs["form"] != "for":
                attrs["form"] = "for"
            elif 4 <= part < 4 + len(node.args) and len(node.args) > 1 and not attrs["exit"]:
                i = part - 4
                substitute(program, node.results[i], node.args[i])
                substitute(program, node.blocks[0].params[i + 1], node.args[i])
                del node.args[i], node.results[i], node.blocks[0].params[i + 1], node.blocks[0].results[i]
            else:
                return False
            return True
        if node.op == "branch" and part < len(node.results) and len(node.results) > 1:
            del node.results[part]
            for block in node.blocks:
                del block.results[part]
            return True
        if node.op == "call" and part == 0 and attrs["condition"] is not None:
            attrs.update(condition=None)
            attrs.pop("instead")
            return True
        return False

    return edit


def plain(number: int) -> Edit:
    """Writes every node on its own line and removes masks."""

    def edit(program: Program) -> bool:
        _, node = at(program, number)
        if node.attrs.get("inline"):
            node.attrs["inline"] = False
            return True
        if node.attrs.get("limit") and node.op in ("store", "scratch"):
            node.attrs["limit"] = None
            return True
        return False

    return edit


def one_instance(program: Program) -> bool:
    changed = program.grid != (1, 1)
    program.grid = (1, 1)
    return changed


def unfused(program: Program) -> bool:
    changed, program.fused = program.fused, False
    return changed


def edits(count: int) -> Iterator[Edit]:
    """All simplifications of a program of `count` nodes, the most drastic first."""
    yield one_instance
    yield unfused
    order = range(count - 1, -1, -1)
    for kind in (drop, make_input):
        for number in order:
            yield kind(number)
    for number in order:
        for side in range(2):
            yield unwrap(number, side)
        for part in range(8):
            yield lean(number, part)
        for choice in range(4):
            yield replace(number, choice)
        yield plain(number)


def reduce(program: Program, fails: Callable[[Program], bool], seconds: float = 20.0) -> Program:
    """The smallest program found within the time limit that still fails."""
    end = time.monotonic() + seconds
    best, progress = program, True
    while progress:
        progress = False
        for edit in edits(len(list(walk(best.body)))):
            if time.monotonic() > end:
                return best
            candidate = copy.deepcopy(best)
            try:
                if not edit(candidate):
                    continue
                needed(candidate)
                if not any(n.op in EFFECTS for _, n in walk(candidate.body)) or not fails(candidate):
                    continue
            except (Undefined, IndexError, KeyError, StopIteration):
                continue
            best, progress = candidate, True
            break
    return best

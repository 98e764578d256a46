"""Structured operations: loops with carried values and exits, branches, functions with an early return.

A block's variables are used only inside it. Each carried value or branch result is one Python name, which
`Renderer.share` gives to all variables that represent it.
"""

from __future__ import annotations

import re
from typing import Any

from .evaluate import Frame, Value
from .kinds import INT1, INT32, Undefined
from .operation import register
from .program import INSTANCE, Block, Node, Renderer, Var, indent

# --- loops: blocks[0] has the index and the carried values as parameters, and yields the carried values ---------------


def bound(attrs: dict[str, Any], which: str, frame: Frame) -> int:
    value = attrs[which]
    return int(frame.program.scalars[value]) if isinstance(value, str) else value


def loop_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (block,) = node.blocks
    index, *carried = block.params
    attrs = node.attrs
    values = list(args)
    for i in range(*(bound(attrs, w, frame) for w in ("start", "stop", "step"))):
        frame[index] = Value(INT32, i)
        for var, value in zip(carried, values, strict=True):
            frame[var] = value
        if attrs["exit"] is None:
            frame.run(block)
            values = [frame[v] for v in block.results]
        else:
            # The first `early` values are assigned before the exit is tested, the others at the end of the body.
            frame.run(block, 0, attrs["place"])
            early = attrs["early"]
            values[:early] = [frame[v] for v in block.results[:early]]
            for var, value in zip(carried[:early], values, strict=False):
                frame[var] = value
            leaves = bool(frame[attrs["condition"]].exact())
            if leaves and attrs["exit"] == "break":
                break
            if not leaves:
                frame.run(block, attrs["place"])
                values[early:] = [frame[v] for v in block.results[early:]]
    for var, value in zip(carried, values, strict=True):
        if value.kind != var.kind or value.shape != var.shape:
            raise Undefined("a variable changes its type")
    return values


def loop_header(node: Node, renderer: Renderer, index: str) -> tuple[list[str], list[str], list[str]]:
    """Lines before the loop, its header, and lines at the end of the body."""
    attrs = node.attrs
    start, stop, step = (str(attrs[w]) for w in ("start", "stop", "step"))
    bounds = stop if (start, step) == ("0", "1") else f"{start}, {stop}" if step == "1" else f"{start}, {stop}, {step}"
    match attrs["form"]:
        case "while":
            test = f"{index} < {stop}"
            test = f"kl.condition({test})" if attrs["hinted"] else test
            return [f"{index} = {start}"], [f"while {test}:"], [f"{index} += {step}"]
        case "static":
            # The index of a static_range loop is a plain number, which promotes differently; cast it to int32 first.
            number = renderer.fresh("n")
            head = f"for {number} in kl.static_range({bounds}):"
            return [], [head, f"    {index} = kl.cast({number}, kl.int32)"], []
        case "staged":
            return [], [f"for {index} in kl.range({bounds}, num_stages=2):"], []
        case "unrolled":
            return [], [f"for {index} in kl.range({bounds}, loop_unroll_factor={attrs['factor']}):"], []
    return [], [f"for {index} in range({bounds}):"], []


def assigned(names: list[str], values: list[str], together: bool) -> list[str]:
    if together and len(names) > 1:
        return [f"{', '.join(names)} = {', '.join(values)}"]
    return [f"{n} = {v}" for n, v in zip(names, values, strict=True) if n != v]


def loop_lines(node: Node, renderer: Renderer) -> list[str]:
    (block,) = node.blocks
    index, *carried = block.params
    attrs = node.attrs
    names = [renderer.fresh("c") for _ in carried]
    lines = [f"{name} = {renderer.name(a)}" for name, a in zip(names, node.args, strict=True)]
    for var, result, name in zip(carried, node.results, names, strict=True):
        renderer.share(var, name)
        renderer.share(result, name)
    index_name = renderer.name(index)
    before, head, after = loop_header(node, renderer, index_name)
    if attrs["exit"] is None:
        body = renderer.block(block)
        body += assigned(names, [renderer.name(v) for v in block.results], True)
    else:
        early = attrs["early"]
        body = renderer.block(block, 0, attrs["place"])
        body += assigned(names[:early], [renderer.name(v) for v in block.results[:early]], True)
        body += [f"if {renderer.name(attrs['condition'])}:", f"    {attrs['exit']}"]
        body += renderer.block(block, attrs["place"])
        body += assigned(names[early:], [renderer.name(v) for v in block.results[early:]], True)
    body += after
    return [*lines, *before, *head, *indent(body or ["pass"])]


# --- branches: two blocks without parameters, each with as many results as the node; unlikely ones are taken ----------


def branch_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    block = node.blocks[0 if node.attrs["unlikely"] or bool(args[0].exact()) else 1]
    frame.run(block)
    return [frame[v] for v in block.results]


def branch_lines(node: Node, renderer: Renderer) -> list[str]:
    condition = renderer.name(node.args[0])
    if node.attrs["unlikely"]:
        condition = f"kl.unlikely({condition})"
    names = [renderer.fresh("c") for _ in node.results]
    lines: list[str] = []
    then, other = node.blocks
    if node.attrs["bare"] and not other.nodes:  # the earlier values take the place of an else
        lines += assigned(names, [renderer.name(v) for v in other.results], False)
    lines.append(f"if {condition}:")
    lines += indent(renderer.block(then) + assigned(names, [renderer.name(v) for v in then.results], True) or ["pass"])
    if not (node.attrs["bare"] and not other.nodes):
        tail = renderer.block(other) + assigned(names, [renderer.name(v) for v in other.results], True)
        if tail:
            lines += ["else:", *indent(tail)]
    for result, name in zip(node.results, names, strict=True):
        renderer.share(result, name)
    return lines


# --- functions: one block, which sees nothing but its parameters; perhaps an early return -----------------------------


def call_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    (block,) = node.blocks
    for var, value in zip(block.params, args, strict=True):
        frame[var] = value
    if node.attrs["condition"] is None:
        frame.run(block)
        return [frame[v] for v in block.results]
    frame.run(block, 0, node.attrs["place"])
    if bool(frame[node.attrs["condition"]].exact()):
        return [frame[v] for v in node.attrs["instead"].results]
    frame.run(block, node.attrs["place"])
    return [frame[v] for v in block.results]


def call_lines(node: Node, renderer: Renderer) -> list[str]:
    (block,) = node.blocks
    attrs = node.attrs
    arguments = [renderer.name(a) for a in node.args]
    for var in block.params:
        renderer.share(var, renderer.fresh("a"))
    formal = [renderer.name(v) for v in block.params]
    if attrs["condition"] is None:
        body = renderer.block(block)
    else:
        body = renderer.block(block, 0, attrs["place"])
        instead = ", ".join(renderer.name(v) for v in attrs["instead"].results)
        body += [f"if {renderer.name(attrs['condition'])}:", f"    return {instead}"]
        body += renderer.block(block, attrs["place"])
    body.append(f"return {', '.join(renderer.name(v) for v in block.results)}")
    words = set(re.findall(r"\w+", "\n".join(body)))
    shared = [n for n in renderer.program.parameters() if n in words]
    constants = [n for n in renderer.program.constants if n in words]
    name = renderer.fresh("helper")
    signature = ", ".join([*formal, *shared, *(f"{c}: kl.constexpr" for c in constants)])
    if "lin" in words:
        body.insert(0, INSTANCE)
    renderer.functions += ["@kiln.jit", f"def {name}({signature}):", *indent(body), ""]
    listed = arguments + shared + ([f"{c}={c}" for c in constants] if attrs["named"] else constants)
    results = ", ".join(renderer.name(r) for r in node.results)
    return [f"{results} = {name}({', '.join(listed)})"]


# --- drawing ----------------------------------------------------------------------------------------------------------


def same_type(g: Any, var: Var, recent: list[Var]) -> Var:
    """A variable of that type: preferably one defined in the body, else another visible one, else a new one."""
    made = [v for v in recent if v.like(var) and v is not var]
    if made and g.chance(0.85):
        return g.draw.choice(made[-3:])
    others = [v for v in g.visible() if v.like(var)]
    if len(others) > 1 and g.chance(0.4):
        return g.draw.choice(others)
    if var.kind == INT1:
        return g.emit("unary", [var], {"symbol": "~", "inline": False})[0]
    literal = g.draw.choice([1, 3]) if not var.kind.is_float else 0.5
    return g.emit("binary", [var], {"symbol": g.draw.choice("+-"), "literal": literal, "inline": False})[0]


def condition_for(g: Any, recent: list[Var]) -> Var:
    """A scalar bool, preferably one that depends on what the body computed."""
    scalars = [v for v in g.visible() if not v.shape]
    made = [v for v in recent if not v.shape]
    var = g.draw.choice(made) if made and g.chance(0.6) else g.draw.choice(scalars) if scalars else None
    if var is None or g.chance(0.4):
        tile = g.pick(lambda v: v.shape and v.kind != INT1 and v.size > 1)
        axis = None if len(tile.shape) > 1 else 0
        var = g.emit("reduce", [tile], {"way": g.draw.choice(["max", "min"]), "axis": axis, "keep": False,
                                        "left": True, "method": False})[0]  # fmt: skip
    if var.kind == INT1:
        return var
    symbol = g.draw.choice(["<", ">", "<=", "!="])
    literal = g.draw.choice([0, 1, 2]) if not var.kind.is_float else g.draw.choice([0.0, 0.5, 2.0])
    return g.emit("binary", [var], {"symbol": symbol, "literal": literal, "inline": False})[0]


def make_loop(g: Any) -> None:
    form = g.draw.choices(["for", "static", "staged", "unrolled", "while"], [6, 2, 1, 1, 3])[0]
    inits = list({id(v): v for v in (g.pick() for _ in range(g.draw.randrange(1, 4)))}.values())
    if g.chance(0.4):  # a companion of the same type, for swaps
        inits.append(g.pick(lambda v: v.like(inits[0])))
    start, count = g.draw.choice([0, 0, 0, 1, -2]), g.draw.choice([0, 1, 2, 3, 3, 4, 5])
    step = g.draw.choice([1, 1, 1, 2, 3] if form in ("static", "while") else [1, 1, 1, 2, -1, -3])
    attrs: dict[str, Any] = {
        "form": form, "start": start, "stop": start + step * count, "step": step, "exit": None, "condition": None,
        "factor": g.draw.choice([2, 3, 4]), "hinted": g.chance(0.3),
    }  # fmt: skip
    if form != "static" and g.chance(0.5):
        attrs["stop"] = g.number(attrs["stop"])
    block = Block([Var(INT32, ()), *(Var(v.kind, v.shape) for v in inits)])
    with g.inside(block):
        for frame in g.frames:
            frame[block.params[0]] = Value(INT32, start)
            for var, init in zip(block.params[1:], inits, strict=True):
                frame[var] = frame[init]
        if g.chance(0.3) and form != "static":
            # The early values come from what stands before the exit.
            g.fill(g.draw.randrange(1, 4))
            attrs["early"] = early = g.draw.randrange(len(inits) + 1)
            recent = list(g.scopes[-1])
            first = [same_type(g, v, recent) for v in block.params[1 : early + 1]]
            attrs["condition"] = condition_for(g, g.scopes[-1])
            attrs["exit"] = g.draw.choice(["break", "break", "continue"] if form != "while" else ["break"])
            attrs["place"] = len(block.nodes)
            g.fill(g.draw.randrange(0, 3))
            last = [same_type(g, v, list(g.scopes[-1])) for v in block.params[early + 1 :]]
            block.results = first + last
        else:
            g.fill(g.draw.randrange(1, 5))
            block.results = [same_type(g, v, list(g.scopes[-1])) for v in block.params[1:]]
            if len(inits) > 1 and inits[0].like(inits[-1]) and g.chance(0.5):  # a, b = b, f(a, b)
                block.results[0] = block.params[-1]
    g.emit("loop", inits, attrs, [block])


def make_branch(g: Any) -> None:
    unlikely = g.chance(0.2)
    condition = g.pick(lambda v: v.kind == INT1) if unlikely and g.chance(0.5) else condition_for(g, [])
    like = [g.pick() for _ in range(g.draw.randrange(1, 4))]
    bare = g.chance(0.3)
    blocks = []
    for side in range(2):
        block = Block()
        blocks.append(block)
        if side == 1 and bare:
            block.results = like
            break
        with g.inside(block):
            g.fill(g.draw.randrange(0, 4))
            block.results = [same_type(g, v, list(g.scopes[-1])) for v in like]
    g.emit("branch", [condition], {"bare": bare, "unlikely": unlikely}, blocks)


def make_call(g: Any) -> None:
    args = list({id(v): v for v in (g.pick() for _ in range(g.draw.randrange(1, 4)))}.values())
    block = Block([Var(v.kind, v.shape) for v in args])
    attrs: dict[str, Any] = {"condition": None, "named": g.chance(0.5)}
    with g.inside(block, alone=True):
        for frame in g.frames:
            for var, arg in zip(block.params, args, strict=True):
                frame[var] = frame[arg]
        g.fill(g.draw.randrange(1, 4))
        if g.chance(0.35):
            results = [v for v in g.visible() if v not in block.params] or block.params
            results = g.draw.sample(results, min(len(results), g.draw.randrange(1, 3)))
            attrs["condition"] = condition_for(g, g.scopes[-1])
            attrs["instead"], attrs["place"] = Block(results=results), len(block.nodes)
            g.fill(g.draw.randrange(0, 3))
            block.results = [same_type(g, v, list(g.scopes[-1])) for v in results]
        else:
            made = g.scopes[-1] or block.params
            block.results = g.draw.sample(made, min(len(made), g.draw.randrange(1, 4)))
    g.emit("call", args, attrs, [block])


register("loop", 7, make_loop, loop_value, lines=loop_lines, pure=False)
register("branch", 5, make_branch, branch_value, lines=branch_lines, pure=False)
register("call", 4, make_call, call_value, lines=call_lines, pure=False)

"""Operations that create tiles or rearrange elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .evaluate import LIMIT, Frame, Value, convert
from .kinds import INT32, Undefined, rounded
from .operation import register
from .program import Node, Renderer


def is_legal_side(side: int) -> bool:
    """Whether a side is 2^k * m with m odd and at most 31."""
    return side > 0 and side // (side & -side) <= 31


SIDES = [
    *range(1, 33), 40, 48, 56, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    1536, 2048, 4096,
]  # fmt: skip


# --- meaning ----------------------------------------------------------------------------------------------------------


def shape_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    v = args[0]
    attrs = node.attrs
    match attrs["way"]:
        case "reshape" | "view" | "ravel":
            if v.data.size != np.prod(attrs["shape"]):
                raise Undefined("another number of elements")
            return [v.moved(lambda x: x.reshape(attrs["shape"]))]
        case "permute" | "trans" | "T":
            return [v.moved(lambda x: x.transpose(attrs["order"]))]
        case "expand" | "index":
            return [v.moved(lambda x: np.expand_dims(x, attrs["axis"]))]
        case "broadcast":
            if any(s not in (1, d) for s, d in zip(v.shape, attrs["shape"], strict=False)):
                raise Undefined("only sides of 1 stretch")
            return [v.moved(lambda x: np.broadcast_to(x, attrs["shape"]))]
        case "flip":
            return [v.moved(lambda x: np.flip(x, attrs["axis"]))]
        case "split":
            if not v.shape or v.shape[-1] != 2 or len(v.shape) < 2:
                raise Undefined("a last side of 2")
            return [v.moved(lambda x: x[..., 0]), v.moved(lambda x: x[..., 1])]
    raise AssertionError(attrs["way"])


def paired_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    a, b = args
    if a.kind != b.kind:
        raise Undefined("tiles of one kind")
    axis = node.attrs.get("axis", 0)
    way = node.attrs["way"]
    if way == "cat":
        same = len(a.shape) == len(b.shape) and all(
            x == y for d, (x, y) in enumerate(zip(a.shape, b.shape, strict=False)) if d != axis
        )
        if not same or not is_legal_side(a.shape[axis] + b.shape[axis]):
            raise Undefined("sides that do not fit")

    def put(x: Any, y: Any) -> Any:
        if way == "cat":
            return np.concatenate([x, y], axis)
        x, y = np.broadcast_arrays(x, y)
        pairs = np.stack([x, y], -1)
        return pairs if way == "join" else pairs.reshape(*x.shape[:-1], x.shape[-1] * 2)

    err = None if a.err is None and b.err is None else put(a.error, b.error)
    return [Value(a.kind, put(a.data, b.data), err)]


def created_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    attrs = node.attrs
    match attrs["way"]:
        case "arange":
            return [Value(INT32, np.arange(attrs["start"], attrs["start"] + attrs["side"]))]
        case "full":
            kind, number = attrs["kind"], attrs["number"]
            data = rounded(np.float64(number), kind) if kind.is_float else np.asarray(number, kind.dtype)
            return [Value(kind, np.full(attrs["shape"], data))]
        case "spread":
            v = convert(args[0], attrs["kind"])
            return [v.moved(lambda x: np.full(attrs["shape"], x))]
        case "zeros_like":
            return [Value(args[0].kind, np.zeros_like(args[0].data))]
        case "pid":
            return [Value(INT32, frame.place[attrs["axis"]])]
        case "grid":
            return [Value(INT32, frame.program.grid[attrs["axis"]])]
        case "scalar":
            return [Value(attrs["kind"], frame.program.scalars[attrs["name"]])]
    raise AssertionError(attrs["way"])


# --- text -------------------------------------------------------------------------------------------------------------


def listed(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def shape_text(node: Node, args: list[str], renderer: Renderer) -> str:
    x, attrs = args[0], node.attrs
    match attrs["way"]:
        case "reshape":
            return f"{x}.reshape({', '.join(map(str, attrs['shape']))})"
        case "view":
            return f"kl.view({x}, {listed(attrs['shape'])})"
        case "ravel":
            return f"kl.ravel({x})"
        case "T":
            return f"{x}.T"
        case "trans" | "permute":
            return f"kl.{attrs['way']}({x}, {listed(attrs['order'])})"
        case "expand":
            return f"kl.expand_dims({x}, {attrs['axis']})"
        case "index":
            parts = [":"] * len(node.args[0].shape)
            parts.insert(attrs["axis"], "None")
            return f"{x}[{', '.join(parts)}]"
        case "broadcast":
            return f"kl.broadcast_to({x}, {listed(attrs['shape'])})"
        case "flip":
            return f"kl.flip({x}, {attrs['axis']})"
        case "split":
            return f"kl.split({x})"
    raise AssertionError(attrs["way"])


def paired_text(node: Node, args: list[str], renderer: Renderer) -> str:
    axis = f", dim={node.attrs['axis']}" if node.attrs["way"] == "cat" else ""
    return f"kl.{node.attrs['way']}({args[0]}, {args[1]}{axis})"


def created_text(node: Node, args: list[str], renderer: Renderer) -> str:
    from .elementwise import number_text

    attrs = node.attrs
    match attrs["way"]:
        case "arange":
            return f"kl.arange({attrs['start']}, {attrs['start'] + attrs['side']})"
        case "full":
            if attrs["number"] == 0:
                return f"kl.zeros({listed(attrs['shape'])}, {attrs['kind'].text})"
            return f"kl.full({listed(attrs['shape'])}, {number_text(attrs['number'])}, {attrs['kind'].text})"
        case "spread":
            return f"kl.full({listed(attrs['shape'])}, {args[0]}, {attrs['kind'].text})"
        case "zeros_like":
            return f"kl.zeros_like({args[0]})"
        case "pid":
            return f"kl.program_id({attrs['axis']})"
        case "grid":
            return f"kl.num_programs({attrs['axis']})"
        case "scalar":
            return attrs["name"]
    raise AssertionError(attrs["way"])


# --- drawing ----------------------------------------------------------------------------------------------------------


def factored(g: Any, count: int) -> tuple[int, ...]:
    """A shape of `count` elements with legal sides."""
    for _ in range(20):
        shape, rest = [], count
        for _ in range(g.draw.randrange(3)):
            side = g.draw.choice([d for d in SIDES if rest % d == 0])
            shape.append(side)
            rest //= side
        shape.append(rest)
        g.draw.shuffle(shape)
        if all(is_legal_side(s) for s in shape):
            return tuple(shape)
    raise Undefined("no shape found")


def make_shape(g: Any) -> None:
    a = g.pick(lambda v: v.shape)
    rank = len(a.shape)
    ways = ["reshape"] * 4 + ["view", "ravel", "flip", "expand", "index", "index"]
    if rank > 1:
        ways += ["T"] * 3 * (rank == 2) + ["trans", "permute", "permute"]
    if 1 in a.shape:
        ways += ["broadcast"] * 6
    if rank > 1 and a.shape[-1] == 2:
        ways += ["split"] * 6
    way = g.draw.choice(ways)
    attrs: dict[str, Any] = {"way": way, "inline": way != "split" and g.chance(0.4)}
    if way in ("reshape", "view"):
        attrs["shape"] = factored(g, a.size)
        if attrs["shape"] == a.shape:
            attrs["shape"] = (*a.shape[:-1], a.shape[-1] // 2, 2) if a.shape[-1] % 2 == 0 else (1, *a.shape)
    elif way == "ravel":
        if not is_legal_side(a.size):
            raise Undefined("too odd a side")
        attrs["shape"] = (a.size,)
    elif way in ("T", "trans", "permute"):
        order = list(range(rank))
        g.draw.shuffle(order)
        attrs["order"] = (1, 0) if way == "T" else tuple(order)
    elif way in ("expand", "index"):
        if rank > 3:
            raise Undefined("enough dimensions")
        attrs["axis"] = g.draw.randrange(rank + 1)
    elif way == "flip":
        attrs["axis"] = g.draw.randrange(rank)
    elif way == "broadcast":
        other = g.pick(lambda v: v.shape).shape
        sides = [s if s != 1 else g.draw.choice([*other, 2, 3, 8, 16]) for s in a.shape]
        if np.prod(sides) > LIMIT or tuple(sides) == a.shape:
            raise Undefined("not larger")
        attrs["shape"] = tuple(sides)
    g.emit("shape", [a], attrs)


def make_paired(g: Any) -> None:
    a = g.pick(lambda v: v.shape)
    way = g.draw.choice(["join", "interleave", "cat"])
    if len(a.shape) > 3:
        raise Undefined("enough dimensions")
    attrs: dict[str, Any] = {"way": way}
    if way == "cat":
        axis = attrs["axis"] = g.draw.randrange(len(a.shape))
        b = g.pick(
            lambda v: v.kind == a.kind
            and len(v.shape) == len(a.shape)
            and all(x == y for d, (x, y) in enumerate(zip(v.shape, a.shape, strict=True)) if d != axis)
        )
    else:
        b = g.pick(lambda v: v.like(a))
        if not is_legal_side(a.shape[-1] * 2):
            raise Undefined("too odd a side")
    g.emit("paired", [a, b], attrs)


def make_created(g: Any) -> None:
    way = g.draw.choice(["arange", "full", "full", "spread", "zeros_like", "pid", "grid", "scalar"])
    attrs: dict[str, Any] = {"way": way, "inline": g.chance(0.5)}
    args = []
    if way == "arange":
        attrs["start"], attrs["side"] = g.draw.choice([0, 0, 0, 1, 5]), g.shape(1)[0]
    elif way == "full":
        kind = attrs["kind"] = g.kind()
        attrs["shape"] = g.shape()
        attrs["number"] = g.draw.choice([0, 1, 3, 0.5, -2.5] if kind.is_float else [0, 1, kind.high])
        if kind.sort == "bool":
            attrs["number"] = bool(attrs["number"])
    elif way == "spread":
        args = [g.pick(lambda v: not v.shape)]
        attrs["kind"], attrs["shape"] = args[0].kind, g.shape()
    elif way == "zeros_like":
        args = [g.pick(lambda v: v.shape)]
    elif way in ("pid", "grid"):
        attrs["axis"] = g.draw.randrange(2)
    else:
        attrs["name"], attrs["kind"] = g.scalar()
    g.emit("created", args, attrs)


register("shape", 18, make_shape, shape_value, shape_text)
register("paired", 6, make_paired, paired_value, paired_text)
register("created", 6, make_created, created_value, created_text)

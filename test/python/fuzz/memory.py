"""Operations that touch memory: pointers, block pointers, descriptors, loops that step through them, atomics.

Each instance has its own part of every buffer, `lane` elements after the previous one's; only atomics overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import integer_arithmetic, number_text
from .evaluate import Frame, Value, convert, places
from .kinds import INT1, INT32, INT64, UINT32, UINT64, Array, Kind, Undefined, rounded, sample, wide
from .operation import register
from .program import Buffer, Node, Renderer
from .shapes import listed

# --- meaning ----------------------------------------------------------------------------------------------------------


def places_of(attrs: dict[str, Any], frame: Frame) -> Array:
    """Element indices of an access through pointers: base, instance, and one stride per dimension."""
    shape, index = attrs["shape"], np.asarray(attrs["base"] + frame.instance * attrs["lane"])
    for d, (side, stride) in enumerate(zip(shape, attrs["strides"], strict=True)):
        index = index + (np.arange(side) * stride).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return np.broadcast_to(index, shape)


def limit_mask(attrs: dict[str, Any]) -> Array:
    """The elements that a mask `arange < count` along one dimension lets through."""
    dim, count = attrs["limit"]
    shape = attrs["shape"]
    return np.broadcast_to(
        (np.arange(shape[dim]) < count).reshape([-1 if i == dim else 1 for i in range(len(shape))]), shape
    )


def access_mask(attrs: dict[str, Any], extra: list[Value]) -> Array:
    mask = np.ones(attrs["shape"], bool)
    if attrs.get("limit"):
        mask = mask & limit_mask(attrs)
    if attrs.get("masked"):
        mask = mask & extra[0].data
    if mask.shape != tuple(attrs["shape"]):
        raise Undefined("a mask that does not stretch")
    return mask


def read(frame: Frame, name: str, index: Array, mask: Array, other: Value) -> Value:
    data = frame.memory[name]
    if np.any((index < 0) & mask) or np.any((index >= data.size) & mask):
        raise Undefined("an access outside")
    safe = np.where(mask, index, 0)
    errors = frame.memory.get(name + "!")
    err = None
    if errors is not None and (np.any(errors[safe][mask] != 0) or other.err is not None):
        err = np.where(mask, errors[safe], other.error)
    return Value(other.kind, np.where(mask, data[safe], other.data), err)


def write(frame: Frame, name: str, index: Array, mask: Array, value: Value) -> None:
    data = frame.memory[name]
    index, mask, new, err = (np.broadcast_to(x, index.shape)[mask] for x in (index, mask, value.data, value.error))
    if np.any(index < 0) or np.any(index >= data.size) or np.unique(index).size != index.size:
        raise Undefined("an access outside, or two to one place")
    data[index] = new
    if name + "!" in frame.memory:
        frame.memory[name + "!"][index] = err


def load_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    attrs, extra = node.attrs, list(args)
    kind = frame.program.buffer(attrs["buffer"]).kind
    if attrs.get("indexed"):
        index = extra.pop(0).data.astype(np.int64) + attrs["base"] + frame.instance * attrs["lane"]
    else:
        index = places_of(attrs, frame)
    mask = access_mask(attrs, extra)
    extra = extra[1:] if attrs.get("masked") else extra
    if extra:
        other = convert(extra[0], kind)
    else:
        number = attrs.get("other") or 0
        other = Value(kind, rounded(np.float64(number), kind) if kind.is_float else np.asarray(number, kind.dtype))
    return [read(frame, attrs["buffer"], index, mask, other)]


def store_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    kind = frame.program.buffer(node.attrs["buffer"]).kind
    mask = access_mask(node.attrs, args[1:])
    value = convert(args[0], kind)
    write(frame, node.attrs["buffer"], places_of(node.attrs, frame), mask, value)
    return []


def block_places(attrs: dict[str, Any], frame: Frame, moved: int = 0) -> tuple[Array, Array]:
    """Element indices of a block, and which of them are inside the array in the checked dimensions."""
    shape = attrs["shape"]
    index, inside = np.asarray(attrs["base"] + frame.instance * attrs["lane"]), np.ones(shape, bool)
    for d, side in enumerate(shape):
        at = attrs["offsets"][d] + attrs["advance"][d] * (moved + (1 if attrs["moved"] else 0))
        position = (at + np.arange(side)).reshape([-1 if i == d else 1 for i in range(len(shape))])
        good = (position >= 0) & (position < attrs["extents"][d])
        if attrs["checked"] is not None and d not in attrs["checked"] and not np.all(good):
            raise Undefined("a block that leaves the array")
        inside = inside & good
        index = index + position * attrs["strides"][d]
    return index, inside


def block_padding(attrs: dict[str, Any], kind: Kind) -> Value:
    return Value(kind, np.asarray(np.nan if attrs["padding"] == "nan" else 0, kind.dtype))


def block_load_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    kind = frame.program.buffer(node.attrs["buffer"]).kind
    index, inside = block_places(node.attrs, frame)
    return [read(frame, node.attrs["buffer"], index, inside, block_padding(node.attrs, kind))]


def block_store_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    kind = frame.program.buffer(node.attrs["buffer"]).kind
    index, inside = block_places(node.attrs, frame)
    write(frame, node.attrs["buffer"], index, inside, convert(args[0], kind))
    return []


def walk_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    """A loop that advances blocks (or pointers): `acc = acc * 3 + x` for integers, `acc + x` for floats."""
    attrs = node.attrs
    kind = frame.program.buffer(attrs["buffer"]).kind
    total = Value(kind, np.zeros(attrs["shape"], kind.dtype))
    for step in range(attrs["count"]):
        if attrs["way"] == "blocks":
            index, inside = block_places(attrs, frame, step)
        else:
            index, inside = places_of(attrs, frame) + step * attrs["step"], access_mask(attrs, [])
        x = read(frame, attrs["buffer"], index, inside, block_padding(attrs, kind))
        x.exact()
        with np.errstate(all="ignore"):
            if kind.is_float:
                total = Value(kind, rounded(wide(total.data) + wide(x.data), kind))
            else:
                three = np.asarray(3, kind.dtype)
                product = integer_arithmetic("*", total.data, three, kind)
                total = Value(kind, integer_arithmetic("+", product, x.data, kind))
    return [total]


ATOMICS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def atomic_value(node: Node, args: list[Value], frame: Frame) -> list[Value]:
    attrs = node.attrs
    name = attrs["buffer"]
    kind, memory = frame.program.buffer(name).kind, frame.memory[name]
    value = convert(args[1], kind)
    if value.kind.is_float:
        value.exact()
    index = args[0].data.astype(np.int64)
    mask = np.ones(index.shape, bool)
    if attrs["masked"]:
        mask = np.broadcast_to(args[2].data, index.shape)
    if attrs["own"]:
        index = index + frame.instance * attrs["lane"]
    if np.any((index < 0) | (index >= memory.size)) or np.broadcast_shapes(index.shape, value.shape) != index.shape:
        raise Undefined("an access outside")
    data = np.broadcast_to(value.data, index.shape)
    with np.errstate(all="ignore"):
        if not attrs["own"]:
            ATOMICS[attrs["which"]].at(memory, index[mask], data[mask])
            return []
        if np.unique(index).size != index.size:
            raise Undefined("two accesses of one place")
        old = memory[index]
        if attrs["which"] == "xchg":
            new = data
        elif attrs["which"] == "cas":
            new = np.where(old == attrs["compare"], data, old)
        else:
            new = ATOMICS[attrs["which"]](old, data).astype(kind.dtype)
        memory[index] = np.where(mask, new, old)
        return [] if attrs["masked"] else [Value(kind, old)]  # a masked element's returned value is unspecified


# --- text -------------------------------------------------------------------------------------------------------------


def axis_text(side: int, dim: int, rank: int) -> str:
    spread = "" if rank == 1 else f"[{', '.join(':' if i == dim else 'None' for i in range(rank))}]"
    return f"kl.arange(0, {side}){spread}"


def lane_text(attrs: dict[str, Any]) -> str:
    terms = [f"lin * {attrs['lane']}"] if attrs["lane"] else []
    if attrs["base"] or not terms:
        terms.append(str(attrs["base"]))
    return " + ".join(terms)


def offsets_text(attrs: dict[str, Any]) -> str:
    rank = len(attrs["shape"])
    terms = [lane_text(attrs)]
    if attrs.get("hinted"):
        terms = [f"kl.multiple_of(lin * {attrs['lane']}, {attrs['hinted']})", str(attrs["base"])]
    for dim, (side, stride) in enumerate(zip(attrs["shape"], attrs["strides"], strict=True)):
        terms.append(f"{axis_text(side, dim, rank)} * {stride}" if stride != 1 else axis_text(side, dim, rank))
    return " + ".join(terms)


def mask_text(attrs: dict[str, Any], masks: list[str]) -> str:
    parts = list(masks)
    if attrs.get("limit"):
        dim, count = attrs["limit"]
        parts.append(f"({axis_text(attrs['shape'][dim], dim, len(attrs['shape']))} < {attrs['count_text'] or count})")
    return " & ".join(parts)


def load_text(node: Node, args: list[str], renderer: Renderer) -> str:
    attrs, rest = node.attrs, list(args)
    place = f"{lane_text(attrs)} + {rest.pop(0)}" if attrs.get("indexed") else offsets_text(attrs)
    mask = mask_text(attrs, [rest.pop(0)] if attrs.get("masked") else [])
    other = rest[0] if rest else number_text(attrs["other"]) if attrs.get("other") is not None else ""
    if mask:
        mask = f", mask={mask}" + (f", other={other}" if other else "")
    return f"kl.load({attrs['buffer']} + ({place}){mask})"


def barrier(node: Node) -> list[str]:
    return ["kl.debug_barrier()"] if node.attrs.get("barrier") else []


def load_lines(node: Node, renderer: Renderer) -> list[str]:
    text = load_text(node, [renderer.name(a) for a in node.args], renderer)
    return [*barrier(node), f"{renderer.name(node.results[0])} = {text}"]


def store_lines(node: Node, renderer: Renderer) -> list[str]:
    value, *masks = [renderer.name(a) for a in node.args]
    mask = mask_text(node.attrs, masks)
    text = f"kl.store({node.attrs['buffer']} + ({offsets_text(node.attrs)}), {value}{', mask=' + mask if mask else ''})"
    return [*barrier(node), text]


def block_pointer_text(attrs: dict[str, Any]) -> str:
    rank = len(attrs["shape"])
    base = f"{attrs['buffer']} + ({lane_text(attrs)})"
    parts = [listed(attrs[k]) for k in ("extents", "strides", "offsets", "shape")]
    order = listed(tuple(sorted(range(rank), key=lambda d: abs(attrs["strides"][d]))))
    pointer = f"kl.make_block_ptr({base}, {', '.join(parts)}, {order})"
    return f"kl.advance({pointer}, {listed(attrs['advance'])})" if attrs["moved"] else pointer


def descriptor_text(attrs: dict[str, Any]) -> str:
    base = f"{attrs['buffer']} + ({lane_text(attrs)})"
    extents, strides, shape = (list(attrs[k]) for k in ("extents", "strides", "shape"))
    padding = ', padding_option="nan"' if attrs["padding"] == "nan" else ""
    return f"kl.make_tensor_descriptor({base}, {extents}, {strides}, {shape}{padding})"


def check_text(attrs: dict[str, Any], padded: bool) -> str:
    if not attrs["checked"]:
        return ""
    padding = f', padding_option="{attrs["padding"]}"' if padded else ""
    return f", boundary_check={listed(attrs['checked'])}{padding}"


def block_load_text(node: Node, args: list[str], renderer: Renderer) -> str:
    attrs = node.attrs
    if attrs["checked"] is None:
        return f"{descriptor_text(attrs)}.load({list(attrs['offsets'])})"
    return f"kl.load({block_pointer_text(attrs)}{check_text(attrs, True)})"


def block_store_lines(node: Node, renderer: Renderer) -> list[str]:
    attrs, value = node.attrs, renderer.name(node.args[0])
    if attrs["checked"] is None:
        return [f"{descriptor_text(attrs)}.store({list(attrs['offsets'])}, {value})"]
    return [f"kl.store({block_pointer_text(attrs)}, {value}{check_text(attrs, False)})"]


def walk_lines(node: Node, renderer: Renderer) -> list[str]:
    attrs = node.attrs
    kind = renderer.program.buffer(attrs["buffer"]).kind
    name, pointer, step, x = (renderer.name(node.results[0]), *(renderer.fresh(p) for p in ("ptr", "step", "x")))
    if attrs["way"] == "blocks":
        start, advance = block_pointer_text(attrs), f"{pointer} = kl.advance({pointer}, {listed(attrs['advance'])})"
        load = f"kl.load({pointer}{check_text(attrs, True)})"
    else:
        start, advance = f"{attrs['buffer']} + ({offsets_text(attrs)})", f"{pointer} += {attrs['step']}"
        mask = mask_text(attrs, [])
        load = f"kl.load({pointer}{f', mask={mask}, other=0' if mask else ''})"
    sum_text = f"{name} = {name} + {x}" if kind.is_float else f"{name} = {name} * 3 + {x}"
    return [
        f"{pointer} = {start}", f"{name} = kl.zeros({listed(attrs['shape'])}, {kind.text})",
        f"for {step} in {'kl.range' if attrs['staged'] else 'range'}({attrs['count_text'] or attrs['count']}"
        f"{', num_stages=3' if attrs['staged'] else ''}):",
        f"    {x} = {load}", f"    {sum_text}", f"    {advance}",
    ]  # fmt: skip


def atomic_lines(node: Node, renderer: Renderer) -> list[str]:
    attrs = node.attrs
    index, value, *mask = [renderer.name(a) for a in node.args]
    lane = f"lin * {attrs['lane']} + " if attrs["own"] else ""
    place = f"{attrs['buffer']} + ({lane}{index})"
    order = f', sem="{attrs["sem"]}"' if attrs["sem"] else ""
    if attrs["which"] == "cas":
        text = f"kl.atomic_cas({place}, {attrs['compare']}, {value}{order})"
    else:
        text = f"kl.atomic_{attrs['which']}({place}, {value}{', mask=' + mask[0] if mask else ''}{order})"
    return [f"{renderer.name(node.results[0])} = {text}" if node.results else text]


# --- drawing ----------------------------------------------------------------------------------------------------------


def row_major(shape: tuple[int, ...]) -> list[int]:
    strides, step = [], 1
    for side in reversed(shape):
        strides.insert(0, step)
        step *= side
    return strides


def some_strides(g: Any, shape: tuple[int, ...], unique: bool) -> list[int]:
    """Row-major, permuted, padded, backwards, or (where elements may be read twice) repeated and arbitrary strides."""
    strides = row_major(shape)
    way = g.draw.choices(["plain", "permuted", "padded", "backwards", "zero", "any"], [5, 2, 2, 1, 1, 1])[0]
    if way == "permuted" and len(shape) > 1:
        order = list(range(len(shape)))
        g.draw.shuffle(order)
        inner = row_major(tuple(shape[d] for d in order))
        for place, d in enumerate(order):
            strides[d] = inner[place]
    elif way == "padded" and len(shape) > 1:
        pad = g.draw.choice([1, 3, 16])
        strides = [s + pad * (s // shape[-1]) if d < len(shape) - 1 else 1 for d, s in enumerate(strides)]
    elif way == "backwards" and shape:
        d = g.draw.randrange(len(shape))
        strides[d] = -strides[d]
    elif way == "zero" and shape and not unique:
        strides[g.draw.randrange(len(shape))] = 0
    elif way == "any" and shape and not unique:
        strides = [g.draw.choice([0, 1, 2, 3, 5, 8, 16]) for _ in shape]
    return strides


def span(shape: Any, strides: Any) -> tuple[int, int]:
    """The smallest and the largest offset of an access."""
    low = sum(min(0, (side - 1) * step) for side, step in zip(shape, strides, strict=True))
    return low, sum(max(0, (side - 1) * step) for side, step in zip(shape, strides, strict=True))


def add_buffer(g: Any, kind: Kind, size: int, role: str) -> str:
    if role == "output":
        data = np.zeros(size, kind.dtype)
    else:
        data = sample(kind, size, g.draw, g.data)
    name = f"p{len(g.program.buffers)}"
    g.program.buffers.append(Buffer(name, kind, data, role))
    for memory in {id(f.memory): f.memory for f in g.frames}.values():
        memory[name] = data.copy()
        if kind.is_float:
            memory[name + "!"] = np.zeros(size)
    return name


def instances(g: Any) -> int:
    return len(places(g.program.grid))


def load_new(g: Any, kind: Kind, shape: tuple[int, ...]) -> Any:
    """A load of a tile (or scalar) from a separate input."""
    strides = some_strides(g, shape, unique=False)
    low, high = span(shape, strides)
    attrs: dict[str, Any] = {"shape": shape, "strides": strides, "base": -low + g.draw.choice([0, 0, 0, 1, 5])}
    size = attrs["base"] + high + 1
    attrs["lane"] = 0 if g.chance(0.2) else size if g.chance(0.5) else -(-size // 16) * 16
    args: list[Any] = []
    attrs.update(limit=None, count_text="", masked=False, other=None)
    if attrs["lane"] % 16 == 0 and attrs["lane"] and g.chance(0.3):
        attrs["hinted"] = 16
    if shape and g.chance(0.35):
        dim = g.draw.randrange(len(shape))
        count = g.draw.randrange(shape[dim] + 1)
        attrs["limit"] = (dim, count)
        if g.chance(0.5):
            attrs["count_text"] = g.number(count)
    if shape and g.chance(0.15):
        try:
            mask = g.pick(lambda v: v.kind == INT1 and v.shape and fits(v.shape, shape))
            attrs["masked"] = True
            args.append(mask)
        except Undefined:
            pass
    if attrs["limit"] or attrs["masked"]:
        if g.chance(0.3):
            try:
                args.append(g.pick(lambda v: v.kind == kind and fits(v.shape, shape)))
            except Undefined:
                pass
        elif g.chance(0.7):
            attrs["other"] = g.draw.choice([0, 1, 0.5 if kind.is_float else 3])
            if kind == INT1:
                attrs["other"] = bool(attrs["other"])
    # Make the buffer no larger than what the mask lets through, so that a stray access is out of bounds.
    frame = g.frames[-1]
    index = places_of({**attrs, "lane": 0}, frame)
    if attrs["limit"]:
        index = index[limit_mask(attrs)]
    needed = int(index.max()) + 1 if index.size else 1
    attrs["buffer"] = add_buffer(g, kind, attrs["lane"] * (instances(g) - 1) + needed, "input")
    return g.emit("load", args, attrs)[0]


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    padded = (1,) * (len(wanted) - len(shape)) + tuple(shape)
    return len(shape) <= len(wanted) and all(s in (1, d) for s, d in zip(padded, wanted, strict=True))


def make_load(g: Any) -> None:
    if g.chance(0.25):
        index = g.pick(lambda v: v.kind.is_integer and v.shape)
        limit = g.draw.choice([8, 32, 64])
        index = g.emit("binary", [index], {"symbol": "&", "literal": limit - 1, "inline": False})[0]
        attrs = {"shape": index.shape, "base": 0, "lane": limit, "indexed": True, "limit": None, "other": None,
                 "masked": False, "count_text": ""}  # fmt: skip
        attrs["buffer"] = add_buffer(g, g.kind(), limit * instances(g), "input")
        g.emit("load", [index], attrs)
        return
    load_new(g, g.kind(), g.shape())


def make_scratch(g: Any) -> None:
    """A store into memory that is also read, or a read of such memory."""
    known = [b for b in g.program.buffers if b.role == "scratch"]
    if known and g.chance(0.55):
        buffer = g.draw.choice(known)
        lane = buffer.data.size // instances(g)
        shape = g.shape()
        strides = some_strides(g, shape, unique=False)
        low, high = span(shape, strides)
        if high - low >= lane:
            raise Undefined("larger than the buffer")
        base = -low + g.draw.randrange(lane - (high - low))
        attrs = {"buffer": buffer.name, "shape": shape, "strides": strides, "base": base, "lane": lane, "limit": None,
                 "masked": False, "other": None, "count_text": "", "barrier": g.chance(0.4)}  # fmt: skip
        g.emit("scratch_load", [], attrs)
        return
    a = g.pick()
    kind = a.kind
    strides = some_strides(g, a.shape, unique=True)
    low, high = span(a.shape, strides)
    usable = [b for b in known if b.kind == kind and b.data.size // instances(g) > high - low]
    if usable:
        name = g.draw.choice(usable).name
    else:
        name = add_buffer(g, kind, (high - low + 1 + g.draw.choice([0, 1, 16])) * instances(g), "scratch")
    lane = g.program.buffer(name).data.size // instances(g)
    base = -low + g.draw.randrange(lane - (high - low))
    emit_store(g, "scratch", a, name, strides, base, lane)


def emit_store(g: Any, op: str, a: Any, name: str, strides: list[int], base: int, lane: int) -> None:
    attrs = {"buffer": name, "shape": a.shape, "strides": strides, "base": base, "lane": lane, "limit": None,
             "masked": False, "count_text": "", "barrier": op == "scratch" and g.chance(0.4)}  # fmt: skip
    args = [a]
    if a.shape and g.chance(0.3):
        dim = g.draw.randrange(len(a.shape))
        attrs["limit"] = (dim, g.draw.randrange(a.shape[dim] + 1))
        if g.chance(0.5):
            attrs["count_text"] = g.number(attrs["limit"][1])
    if a.shape and g.chance(0.15):
        try:
            args.append(g.pick(lambda v: v.kind == INT1 and v.shape and fits(v.shape, a.shape)))
            attrs["masked"] = True
        except Undefined:
            pass
    g.emit(op, args, attrs)


def store_output(g: Any, a: Any) -> None:
    """Stores the value to a separate output."""
    if a.shape and len(a.shape) <= 3 and g.chance(0.15):
        store_block_output(g, a)
        return
    strides = some_strides(g, a.shape, unique=True)
    low, high = span(a.shape, strides)
    lane = high - low + 1 + g.draw.choice([0, 0, 3])
    kind = a.kind
    name = add_buffer(g, kind, lane * instances(g), "output")
    emit_store(g, "store", a, name, strides, -low, lane)


def block_attrs(g: Any, kind: Kind, shape: tuple[int, ...]) -> tuple[dict[str, Any], int]:
    """A block at some position of a strided array, and the size of an instance's part."""
    rank = len(shape)
    descriptor = rank > 0 and shape[-1] * max(kind.bits, 8) // 8 >= 16 and g.chance(0.4)
    extents, offsets, advance = [], [], []
    moved = not descriptor and g.chance(0.4)
    checked: tuple[int, ...] | None = tuple(sorted(g.draw.sample(range(rank), g.draw.randrange(rank + 1))))
    for d, side in enumerate(shape):
        step = g.draw.choice([0, 1, side]) if moved else 0
        if descriptor or d in checked:
            extent = g.draw.randrange(1, side * 2 + 2)
            offset = g.draw.randrange(-side, extent + 1) if g.chance(0.5) else 0
        else:
            offset = g.draw.randrange(0, 4)
            extent = side + offset + step + g.draw.randrange(0, 3)
        extents.append(extent)
        offsets.append(offset)
        advance.append(step)
    strides = row_major(tuple(extents))
    if not descriptor and rank > 1 and g.chance(0.3):
        strides = list(reversed(row_major(tuple(reversed(extents)))))
    elif rank > 1 and g.chance(0.3):
        pad = 16
        strides = [s // extents[-1] * (extents[-1] + pad) if d < rank - 1 else s for d, s in enumerate(strides)]
    size = sum((e - 1) * s for e, s in zip(extents, strides, strict=True)) + 1
    lane = -(-size // 16) * 16
    padding = "nan" if kind.is_float and g.chance(0.2) else "zero"
    attrs = {"shape": shape, "extents": tuple(extents), "offsets": tuple(offsets), "advance": tuple(advance),
             "strides": tuple(strides), "moved": moved, "checked": None if descriptor else checked, "base": 0,
             "lane": lane, "padding": padding}  # fmt: skip
    return attrs, lane


def store_block_output(g: Any, a: Any) -> None:
    attrs, lane = block_attrs(g, a.kind, a.shape)
    attrs["buffer"] = add_buffer(g, a.kind, lane * instances(g), "output")
    g.emit("block_store", [a], attrs)


def make_block_load(g: Any) -> None:
    kind, shape = g.kind(), g.shape()
    if kind == INT1 or not 1 <= len(shape) <= 3:
        raise Undefined("a block of numbers")
    attrs, lane = block_attrs(g, kind, shape)
    attrs["buffer"] = add_buffer(g, kind, lane * instances(g), "input")
    g.emit("block_load", [], attrs)


def make_walk(g: Any) -> None:
    kind, shape = g.kind(), g.shape()
    if kind == INT1 or not 1 <= len(shape) <= 3:
        raise Undefined("a block of numbers")
    count = g.draw.randrange(5)
    way = g.draw.choice(["blocks", "pointers"])
    count_text = g.number(count) if g.chance(0.5) else ""
    if way == "blocks":
        attrs, lane = block_attrs(g, kind, shape)
        attrs["advance"] = tuple(g.draw.choice([0, 1, s]) for s in shape)
        attrs.update(moved=False, checked=tuple(range(len(shape))), padding="zero")
        attrs["strides"] = tuple(attrs["strides"])
    else:
        strides = some_strides(g, shape, unique=False)
        low, high = span(shape, strides)
        step = g.draw.choice([1, shape[-1], high - low + 1])
        lane = high - low + 1 + step * max(count - 1, 0)
        attrs = {"shape": shape, "strides": strides, "base": -low, "lane": lane, "step": step, "limit": None,
                 "count_text": "", "padding": "zero"}  # fmt: skip
        if g.chance(0.4):
            dim = g.draw.randrange(len(shape))
            attrs["limit"] = (dim, g.draw.randrange(shape[dim] + 1))
    mask_count = attrs.get("count_text", "")
    assert not mask_count
    attrs.update(way=way, count=count, staged=g.chance(0.3), count_text=count_text)
    if attrs.get("limit"):
        attrs["count_text"] = ""
    attrs["buffer"] = add_buffer(g, kind, lane * instances(g), "input")
    g.emit("walk", [], attrs)


def make_atomic(g: Any) -> None:
    own = g.chance(0.5)
    kind = g.draw.choice([INT32, UINT32, INT64, UINT64])
    which = g.draw.choice([*ATOMICS, *(["xchg", "cas"] if own else [])])
    attrs: dict[str, Any] = {"which": which, "own": own, "masked": False, "lane": 0, "compare": 0,
                             "sem": g.draw.choice(["", "relaxed", "acquire", "release", "acq_rel"])}  # fmt: skip
    if own:
        side = g.shape(1)[0]
        index = g.emit("created", [], {"way": "arange", "start": 0, "side": side, "inline": True})[0]
        attrs["lane"] = side
        size = side * instances(g)
        attrs["compare"] = g.draw.choice([0, 1, 2])
    else:
        index = g.pick(lambda v: v.kind.is_integer)
        size = g.draw.choice([1, 4, 32])
        index = g.emit("binary", [index], {"symbol": "&", "literal": size - 1, "inline": True})[0]
    value = g.pick(
        lambda v: not v.kind.is_float and len(v.shape) in (0, len(index.shape)) and fits(v.shape, index.shape)
    )
    args = [index, value]
    if g.chance(0.3) and which != "cas" and index.shape:
        try:
            args.append(g.pick(lambda v: v.kind == INT1 and v.shape == index.shape))
            attrs["masked"] = True
        except Undefined:
            pass
    attrs["buffer"] = add_buffer(g, kind, size, "atomic")
    g.emit("atomic", args, attrs)


register("load", 12, make_load, load_value, load_text)
register("scratch_load", 0, None, load_value, load_text, load_lines, pure=False)
register("store", 0, None, store_value, lines=store_lines, pure=False)
register("scratch", 6, make_scratch, store_value, lines=store_lines, pure=False)
register("block_load", 4, make_block_load, block_load_value, block_load_text)
register("block_store", 0, None, block_store_value, lines=block_store_lines, pure=False)
register("walk", 2, make_walk, walk_value, lines=walk_lines)
register("atomic", 3, make_atomic, atomic_value, lines=atomic_lines, pure=False)

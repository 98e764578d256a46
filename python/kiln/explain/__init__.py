"""Explains the speed of a kernel: the work of a launch, the code that the compiler made, and how the two compare.
Nothing runs and no GPU is needed.

    from kiln import explain
    report = explain.launch(kernel, grid, x, y, n, BLOCK=1024)    # compiles for these arguments, launches nothing
    report = explain.compiled(kernel[grid](...), grid=977, values={"n": 1_000_000})
    print(report); report.html(); report.data

On the command line `kiln explain FILE.py::NAME --signature "…" --values "n=1000000" --grid 977`.

Bytes and operations are counted by evaluating the kernel's index arithmetic on a sample of the grid. Counts are exact,
except where they depend on data: those are upper bounds, and are marked as such.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kiln import errors

__all__ = ["Report", "compiled", "launch"]

# The assumed value of an integer argument without one.
ASSUMED = 4096


class Report:
    """The report on one launch of a compiled kernel; `data` holds all of it as plain data."""

    def __init__(self, data: dict[str, Any]):
        self.data = data

    def __str__(self) -> str:
        from kiln.explain.text import write

        return write(self.data)

    def json(self) -> str:
        return json.dumps(self.data, indent=2, sort_keys=True)

    def html(self) -> str:
        """One self-contained page, with the layouts drawn."""
        from kiln.explain.html import write

        return write(self.data)


def launch(kernel: Any, grid: Any, /, *args: Any, machine: str | None = None, **kwargs: Any) -> Report:
    """The report on `kernel[grid](*args, **kwargs)`: compiles for the target of that launch, and launches nothing.
    `machine`: a GPU of the table of peaks by name (default: this machine's GPU, else the target's first)."""
    made = kernel.run(*args, grid=grid, warmup=True, **kwargs)
    bound = dict(zip([p.name for p in kernel.params], args, strict=False)) | kwargs
    if callable(grid):
        grid = grid({**{p.name: p.default for p in kernel.params if p.has_default}, **bound})
    return compiled(made, grid=grid, values=_integers("", bound), machine=machine)


def _integers(prefix: str, items: Mapping[str, Any]) -> dict[str, int]:
    """The integers among arguments, by the names that the kernel's flat arguments have."""
    found: dict[str, int] = {}
    for name, value in items.items():
        full = prefix + name
        if isinstance(value, bool):
            found[full] = int(value)
        elif hasattr(value, "__index__") and not hasattr(value, "shape"):
            found[full] = value.__index__()
        elif isinstance(value, (tuple, list)):
            found |= _integers(full + ".", {str(i): item for i, item in enumerate(value)})
        elif hasattr(value, "block_shape") and hasattr(value, "strides"):
            sides = {f"shape.{i}": side for i, side in enumerate(value.shape)}
            found |= _integers(full + ".", sides | {f"stride.{i}": step for i, step in enumerate(value.strides)})
    return found


def compiled(
    kernel: Any,
    grid: int | Sequence[int] = 1,
    values: Mapping[str, int] | None = None,
    machine: str | None = None,
) -> Report:
    """The report on a launch of compiled code on `grid`. `values`: integer arguments by name; one that is not given
    counts as 4096, and the report says so. `machine`: as for `launch`."""
    from kiln import _kiln
    from kiln.explain import machines, occupancy

    sides = (grid,) if isinstance(grid, int) else tuple(grid)
    if not 1 <= len(sides) <= 3 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise errors.UserError(f"expected a grid of 1 to 3 positive sides, got {grid!r}")
    x, y, z = (*sides, 1, 1)[:3]
    metadata = kernel.metadata
    integers = [a["name"] for a in metadata["arguments"] if a["kind"] == "scalar" and a["type"][0] in "iu"]
    given = dict(values or {})
    for name in given:
        if name not in integers:
            near = errors.near_match(name, integers)
            if values is not None and name in [p.name for p in kernel.parameters]:
                continue  # a constexpr, or an argument that is no integer
            raise errors.UserError(
                f"kernel {kernel.name} has no integer argument {name!r}"
                + (f"; did you mean {near!r}?" if near else f"; it has {', '.join(integers) or 'none'}")
            )
    known = {name: given[name] for name in integers if name in given}
    assumed = [name for name in integers if name not in given]
    known |= dict.fromkeys(assumed, ASSUMED)

    target = metadata["target"]
    if machine is not None and target["kind"] != "cuda":
        raise errors.UserError(
            f"expected a GPU as the target (because a machine is a GPU whose peaks are compared with), got target "
            f"{target['name']!r} with machine {machine!r}"
        )
    data: dict[str, Any] = {
        "kernel": kernel.name,
        "signature": kernel.signature,
        "target": target["name"],
        "kind": target["kind"],
        "grid": list(sides),
        "values": known,
        "assumed": assumed,
        "work": json.loads(_kiln.describe_work(kernel.asm["opt"], known, (x, y, z))),
        "remarks": [
            {"message": d["message"], "frames": [list(frame[:3]) for frame in d["frames"]]}
            for d in kernel.artifact.diagnostics
            if d["severity"] in ("remark", "warning")
        ],
    }
    if target["kind"] == "cuda":
        machine_row = machines.choose(target["name"], machine)
        cuda = metadata["cuda"]
        usage = cuda.get("usage")
        data["machine"] = machine_row.name
        data["resources"] = {
            "warps": cuda["num_warps"],
            "threads": cuda["threads"],
            "cluster": cuda["cluster"],
            "shared_bytes": cuda["shared_bytes"],
            "registers": usage and usage["registers"],
            "spill_bytes": usage and usage["spill_stores"] + usage["spill_loads"],
        }
        data["occupancy"] = (
            occupancy.compute(
                target["limits"], machine_row, cuda["threads"], usage["registers"], cuda["shared_bytes"]
            )._asdict()
            if usage
            else None
        )
        data["placement"] = json.loads(_kiln.describe_placement(kernel.asm["kgpu"], known, (x, y, z)))
        data["roofline"] = _roofline(data["work"], machine_row)
    else:
        data["resources"] = {"vector_registers": kernel.n_regs, "stack_bytes": kernel.n_spills * 4}
    return Report(data)


def _roofline(work: dict[str, Any], machine: Any) -> dict[str, Any]:
    """A lower bound of the seconds for each part of the machine. Memory: the requested bytes, but for each array at
    most the range from the first to the last byte accessed (the rest comes from a cache)."""
    moved = sum(min(array[way], array["span"]) for array in work["arrays"] for way in ("read", "written"))
    parts = {"memory": moved / machine.bytes_per_second}
    unknown = []
    for kind, counts in work["operations"].items():
        for element, count in counts.items():
            rate = machine.rate(kind, element)
            if rate is None:
                unknown.append(f"{kind} {element}")
            else:
                parts[f"{kind} {element}"] = count / rate
    limiter = max(parts, key=lambda name: parts[name])
    return {"bytes": moved, "seconds": parts, "limiter": limiter, "least": parts[limiter], "unknown": unknown}

"""`kiln info`: what this installation is and what it sees of the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from typing import Any


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser("info", help="show versions, the machine, targets and switches")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=run)


def collect() -> dict[str, Any]:
    """Everything `kiln info` shows, as plain data."""
    from kiln import __version__, _kiln, knobs, toolchain

    switches = {}
    for switch in knobs.SWITCHES:
        value, default = getattr(knobs, switch.name), switch.default_value()
        switches[switch.variable] = {"value": value, "default": value == default}
    return {
        "kiln": __version__,
        "toolchain": _kiln.toolchain(),
        "library": os.path.abspath(_kiln.__file__),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("numpy", "torch", "ml_dtypes")},
        "machine": {
            "system": platform.platform(),
            "cores": len(os.sched_getaffinity(0)),
            "target": _kiln.host_target(),
        },
        "gpus": _gpus(),
        "targets": [row["name"] for row in _kiln.targets()],
        "stages": [name for name, _, _ in _kiln.stages()],
        "stages_cuda": [name for name, _, _ in _kiln.stages("cuda")],
        "cuda_tools": {
            name: _tool(find)
            for name, find in (
                ("ptxas", toolchain.ptxas),
                ("nvdisasm", toolchain.nvdisasm),
                ("libdevice", toolchain.libdevice),
                ("nvrtc", _nvrtc),
            )
        },
        "ptx": _ptx(),
        "directories": {"crashes": knobs.crash_dir, "dump": knobs.dump or None},
        "switches": switches,
    }


def _tool(find: Callable[[], Any]) -> dict[str, Any] | None:
    """Where a tool was found, or why it was not: the most frequent question that this command answers."""
    from kiln import errors

    try:
        tool = find()
    except errors.UserError as problem:
        return {"problem": str(problem)}
    return tool._asdict() if tool else None


def _nvrtc() -> Any:
    """NVRTC, which compiles CUDA C, in the form of a tool; or None."""
    from kiln import errors, knobs, toolchain
    from kiln.cuda import nvrtc

    try:
        version = ".".join(map(str, nvrtc.nvrtc_version()))
    except errors.UserError:
        if knobs.nvrtc:
            raise
        return None
    return toolchain.Tool(nvrtc.nvrtc_path(), version, "KILN_NVRTC" if knobs.nvrtc else "found")


def _ptx() -> str | None:
    """The PTX version of kernels, if the assembler in use determines it."""
    from kiln import errors, toolchain

    try:
        version = toolchain.options().get("ptx_version")
    except errors.UserError:
        return None
    return f"{version // 10}.{version % 10}" if version else None


def _gpus() -> list[dict[str, Any]] | str:
    """Each GPU with its row of the target table; without a GPU, the reason."""
    from kiln import cuda, errors

    if cuda.driver_problem():
        return cuda.driver_problem()
    found = []
    for device in range(cuda.device_count()):
        properties = cuda.get_device_properties(device)
        try:
            row = cuda.target(device)
        except errors.UserError:
            row = None
        found.append({
            "name": properties.name,
            "target": row,
            "multiprocessors": properties.multiprocessors,
            "memory_bytes": properties.memory_bytes,
            "driver": ".".join(map(str, cuda.driver_version())),
        })  # fmt: skip
    return found


def _version(package: str) -> str | None:
    # Asking the installed metadata does not import the package (torch takes seconds).
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _describe(name: str, tool: dict[str, Any] | None, ptx: str | None) -> str:
    """A tool in one line; with the assembler, the PTX it reads."""
    written = f"; PTX {ptx}" if name == "ptxas" and ptx else ""
    if tool is None:
        return ("none found: the driver assembles" if name == "ptxas" else "none found") + written
    if "problem" in tool:
        return "unusable: " + " ".join(tool["problem"].split())
    version = f"{tool['version']}, " if tool["version"] else ""
    return f"{tool['path']} ({version}{tool['found']}){written}"


def run(options: argparse.Namespace) -> int:
    """Prints; returns the exit code."""
    facts = collect()
    if options.json:
        print(json.dumps(facts, indent=2, sort_keys=True))
        return 0
    host = facts["machine"]["target"]
    tools = facts["toolchain"]
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in facts["packages"].items())
    print(f"kiln       {facts['kiln']} (build {tools['build'][:12] or 'unknown'}, LLVM {tools['llvm']})")
    print(f"library    {facts['library']}")
    print(f"python     {facts['python']}; {packages}")
    print(f"system     {facts['machine']['system']}, {facts['machine']['cores']} cores for this process")
    rows, columns = host["register_tile"]
    print(
        f"cpu        {host['cpu']}: {host['vector_bytes']}-byte vectors, {rows}x{columns} register tile, "
        f"{', '.join(host['capabilities']) or 'baseline'}"
    )
    if isinstance(facts["gpus"], str):
        print(f"gpus       none: {facts['gpus']}")
    else:
        for number, gpu in enumerate(facts["gpus"]):
            print(
                f"gpu {number}      {gpu['name']}: {gpu['target'] or 'no row of the target table fits it'}, "
                f"{gpu['multiprocessors']} multiprocessors, {gpu['memory_bytes'] / 2**30:.0f} GiB, CUDA {gpu['driver']}"
            )
    print(f"targets    {', '.join(facts['targets'])}")
    print(f"stages     {', '.join(facts['stages'])}; on a GPU {', '.join(facts['stages_cuda'])}")
    for name, tool in facts["cuda_tools"].items():
        print(f"{name:<10} {_describe(name, tool, facts['ptx'])}")
    print(f"crashes    {facts['directories']['crashes']}")
    changed = {name: s["value"] for name, s in facts["switches"].items() if not s["default"]}
    print("switches   " + (", ".join(f"{name}={value}" for name, value in changed.items()) or "all at their defaults"))
    return 0

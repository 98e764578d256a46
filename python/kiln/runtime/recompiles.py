"""Why a kernel is compiled again: text for the log (`KILN_LOG=info,jit`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.frontend.signature import array_names
from kiln.runtime.interface import CODE_SWITCHES, CodeRequest


def reason(request: CodeRequest, others: Mapping[tuple[str, bytes, int], Any]) -> str:
    """What distinguishes this launch from the existing code that has most in common with it. `others`: compiled kernels
    by prefix, key and device, the latest last."""
    nearest: list[str] | None = None
    for (other_prefix, _, other_device), other in reversed(list(others.items())):
        found = _differences(request, other_prefix, other_device, other)
        if nearest is None or len(found) < len(nearest):
            nearest = found
    return "; ".join(nearest) if nearest else "its code was dropped"


def _differences(request: CodeRequest, other_prefix: str, other_device: int, other: Any) -> list[str]:
    parameters, options, _, disjoint, device, prefix = request
    found = []
    for now, before in zip(parameters, other.parameters, strict=True):
        if now.spelled != before.spelled:
            found.append(f"{now.name} is {now.spelled}, before {before.spelled}")
    if not found:
        alone = dict(zip(array_names(parameters), disjoint, strict=False))
        alone_before = dict(zip(array_names(list(other.parameters)), other._disjoint, strict=False))
        for name, is_alone in alone.items():
            if is_alone != alone_before.get(name):
                found.append(f"{name} overlaps {'no other array' if is_alone else 'another array'}, before it did"
                             f"{'' if is_alone else ' not'}")  # fmt: skip
    if device != other_device:
        found.append(f"the device is {_place(device)}, before {_place(other_device)}")
    for name in sorted({*options, *other.options}):
        if options.get(name) != other.options.get(name):
            found.append(f"option {name} is {options.get(name)!r}, before {other.options.get(name)!r}")
    if prefix != other_prefix:
        switches, functions = _split(prefix)
        switches_before, functions_before = _split(other_prefix)
        for name, value in switches.items():
            if switches_before.get(name) != value:
                found.append(f"{name} is {value}, before {switches_before.get(name)}")
        if functions != functions_before:
            found.append("a global or a function that it reaches is another")
    return found


def _split(prefix: str) -> tuple[dict[str, str], list[str]]:
    """Splits what `JITFunction._make_prefix` joined: switches by name, and the keys of functions."""
    switches, functions = {}, []
    for line in prefix.split("\n"):
        name, _, value = line.partition("=")
        if name in (*CODE_SWITCHES, "debug", "version"):
            switches[name] = value
        else:
            functions.append(line)
    return switches, functions


def _place(device: int) -> str:
    return {-1: "the CPU", -2: "none"}.get(device, f"CUDA device {device}")

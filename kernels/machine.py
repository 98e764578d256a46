"""Where a launch runs, and the few facts of that machine that the launch policies ask for.

Tile sizes are chosen per kind of machine: a CPU program walks its tile in the caches of one core, a GPU program holds
it in the registers of its threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kiln import knobs
from kiln.kernels.operator import is_torch


@dataclass(frozen=True)
class Machine:
    """``processors``: multiprocessors of a GPU (0: a CPU). ``clusters``: whether blocks can share a tile."""

    processors: int = 0
    clusters: bool = False

    @property
    def gpu(self) -> bool:
        return self.processors > 0


CPU = Machine()
# What is planned for when a GPU target is named and no device can be asked: the largest machine of its kind.
DEFAULT_GPU = Machine(processors=132, clusters=True)

_options: dict[str, Any] = {}
_planned: Machine | None = None


@contextlib.contextmanager
def launch_options(**options: Any) -> Iterator[None]:
    """Adds launch options to every launch of the library in a block: ``with launch_options(pdl=True): ...``."""
    saved = dict(_options)
    _options.update(options)
    try:
        yield
    finally:
        _options.clear()
        _options.update(saved)


@contextlib.contextmanager
def planning_for(machine: Machine) -> Iterator[None]:
    """Chooses launches in a block as if every array were on ``machine``."""
    global _planned
    saved, _planned = _planned, machine
    try:
        yield
    finally:
        _planned = saved


def is_planning() -> bool:
    """Whether launches are chosen for a machine that the arrays need not be on."""
    return _planned is not None


def options(**chosen: Any) -> dict[str, Any]:
    """Launch options: those a policy chose, and those of ``launch_options`` over them."""
    return {**chosen, **_options}


def machine_of(array: Any) -> Machine:
    """The machine on which a launch with ``array`` runs: the array's own, unless the target switch names another."""
    if _planned is not None:
        return _planned
    if is_torch(array):
        if array.is_cuda:
            return _torch_device(array.device.index)
    elif hasattr(array, "__cuda_array_interface__"):
        return DEFAULT_GPU
    target = knobs.target
    return CPU if not target or target.startswith(("cpu", "auto")) else _named(target)


@functools.lru_cache(maxsize=64)
def _torch_device(index: int) -> Machine:
    import torch

    properties = torch.cuda.get_device_properties(index)
    return Machine(processors=properties.multi_processor_count, clusters=_has_clusters(properties.major))


def _has_clusters(major: int) -> bool:
    return major >= 9


@functools.lru_cache(maxsize=64)
def _named(target: str) -> Machine:
    major = int("".join(c for c in target if c.isdigit())[:-1] or 9)
    return Machine(processors=DEFAULT_GPU.processors, clusters=_has_clusters(major))

"""The machine that a launch runs on, and the facts about it that launch policies need.

Tile sizes depend on the kind of machine: a CPU program walks its tile in the caches of one core, a GPU program holds
it in the registers of its threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from kiln import knobs
from kiln.kernels.operator import PLANNING, is_torch, on_device, scope

# Size of the L2 cache of an H100 (an H200's: 60 MiB), for when no device can be asked.
L2_BYTES = 50 << 20


class Machine(NamedTuple):
    """``processors``: multiprocessors of a GPU (0: a CPU). ``largest_cluster``: blocks that can share a tile.
    ``l2_bytes``: the size of the cache that multiprocessors share. ``target``: a GPU's row of the target table."""

    processors: int = 0
    largest_cluster: int = 1
    l2_bytes: int = L2_BYTES
    target: str = "sm_90a"

    @property
    def gpu(self) -> bool:
        return self.processors > 0


CPU = Machine()
# Multiprocessors to plan for when a GPU target is named and no device can be asked: those of an H100 or H200.
PROCESSORS = 132
DEFAULT_GPU = Machine(PROCESSORS, largest_cluster=16)

_target_places = knobs.places("target")
_options: dict[str, Any] = {}
_planned: Machine | None = None


@contextlib.contextmanager
def launch_options(**options: Any) -> Iterator[None]:
    """Adds launch options to every launch of the library inside the block: ``with launch_options(pdl=True): ...``."""
    saved = dict(_options)
    _options.update(options)
    _tell_scope()
    try:
        yield
    finally:
        _options.clear()
        _options.update(saved)
        _tell_scope()


@contextlib.contextmanager
def planning_for(machine: Machine) -> Iterator[None]:
    """Inside the block, launches are chosen as if every array were on ``machine``."""
    global _planned
    saved, _planned = _planned, machine
    _tell_scope()
    try:
        yield
    finally:
        _planned = saved
        _tell_scope()


# One object for each distinct set of options so far.
_scopes: dict[Any, Any] = {}


def _tell_scope() -> None:
    """Tells recorded calls (`Operator`) which options now apply to launches."""
    if _planned is not None:
        scope[0] = PLANNING
    elif not _options:
        scope[0] = None
    else:
        try:
            key = tuple(sorted(_options.items()))
            scope[0] = _scopes.setdefault(key, key)
        except TypeError:  # options that cannot be ordered or hashed
            scope[0] = PLANNING


def is_streaming(read_bytes: int, machine: Machine, l2s: float) -> bool:
    """Whether ``read_bytes``, read once, are at least ``l2s`` times the size of the L2."""
    return machine.gpu and read_bytes >= l2s * machine.l2_bytes


def evict_policy(read_bytes: int, machine: Machine, l2s: float) -> str:
    """The eviction policy for plans that name one themselves: for streams, the priority that the L2 keeps longest."""
    return "evict_last" if is_streaming(read_bytes, machine, l2s) else ""


def is_planning() -> bool:
    """Whether launches are chosen for a machine that the arrays need not be on."""
    return _planned is not None


def is_dependent() -> bool:
    """Whether ``launch_options`` asks for launches that begin while the previous one ends."""
    return bool(dependent_if_said())


def dependent_if_said() -> bool | None:
    """The same for plans that decide if ``launch_options`` says nothing (None)."""
    asked = _options.get("pdl")
    return None if asked is None else bool(asked)


def options(**chosen: Any) -> dict[str, Any]:
    """The launch options that a policy chose, overridden by those of ``launch_options``."""
    return with_options(chosen)


def with_options(chosen: dict[str, Any], early: bool = True) -> dict[str, Any]:
    """A launch's keyword arguments, overridden by ``launch_options``; ``chosen`` is not changed. ``early``: the next
    launch may begin before this one ends, if that was requested."""
    if not _options:
        return chosen
    found = {**chosen, **_options}
    if not early:
        found.pop("pdl", None)
    return found


def machine_of(array: Any) -> Machine:
    """The machine on which a launch with ``array`` runs: the array's device, unless the target switch names another."""
    if _planned is not None:
        return _planned
    if on_device(array):
        return _device(array.device.index if is_torch(array) else 0)
    return _of_switch()


_seen: tuple[list[Any], Machine] | None = None


def _of_switch() -> Machine:
    """The machine that the target switch names. Cached, because reading a switch takes longer than seeing that it has
    not changed."""
    global _seen, _target_places
    now = _standing(_target_places)
    if _seen is None or _seen[0] != now:
        _target_places = knobs.places("target")  # once a scope has been entered, the thread's places are watched too
        target = knobs.target
        seen = of_target(target) if target.startswith(("sm_", "cuda")) else CPU
        _seen = _standing(_target_places), seen
        return seen
    return _seen[1]


def _standing(places: list[tuple[Any, Any]]) -> list[Any]:
    return [place.get(key) if isinstance(place, dict) else getattr(place, key) for place, key in places]


@functools.lru_cache(maxsize=64)
def of_target(name: str, processors: int = PROCESSORS, l2_bytes: int = L2_BYTES) -> Machine:
    """A machine of a target row, such as "sm_90a"; "cuda" is the first device, or the default without one."""
    import kiln.cuda
    from kiln import _kiln

    if name == "cuda":
        return _device(0) if kiln.cuda.is_available() else DEFAULT_GPU
    return Machine(processors, _kiln.target(name)["limits"]["max_cluster"], l2_bytes, name)


@functools.lru_cache(maxsize=64)
def _device(index: int | None) -> Machine:
    import kiln.cuda

    properties = kiln.cuda.get_device_properties(index)
    return of_target(kiln.cuda.target(index), properties.multiprocessors, properties.l2_bytes)

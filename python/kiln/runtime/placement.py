"""Where a launch runs: on which device, and which target its code is compiled for.

The arrays of a launch decide (C++ reads them). With arrays on a GPU, the launch runs there, compiled for the row of the
target table that fits that GPU; all others run on the CPU row that the switch `target` names. If that switch names a
GPU (`cuda`: the row of the device), every launch runs on one, and with the switch `stage_arrays`, arrays in host memory
are copied there and back.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from kiln import errors, knobs

# Switches that placement depends on, besides those that the code depends on.
SWITCHES = ("num_threads", "stage_arrays")

_ROW = re.compile(r"sm_(\d+)(\d)([af]?)")


def names_gpu(target: str) -> bool:
    """Whether a value of the target switch names a GPU."""
    return target == "cuda" or _ROW.fullmatch(target) is not None


def wants_gpu() -> bool:
    """Whether launches run on a GPU regardless of their arrays."""
    return names_gpu(knobs.target)


@functools.lru_cache(maxsize=1)
def choose_driver() -> None:
    """Tells the runtime which driver to load, before its first use."""
    from kiln import _kiln

    if knobs.libcuda:
        _kiln.cuda_set_library(knobs.libcuda)


def choose_target(device: int) -> str:
    """The row to compile for: for the GPU with this number, for the CPU (-1), or for what the switch names (-2)."""
    target = knobs.target
    if device == -1:
        return "cpu" if names_gpu(target) else target
    if device == -2:
        if target == "cuda":
            raise errors.UserError(
                "expected the name of a row, such as KILN_TARGET=sm_90a (because there is no CUDA device to ask), "
                "got 'cuda'"
            )
        return target
    if names_gpu(target) and target != "cuda":
        _check_row(target, device)
        return target
    return row_of(device)


def device_of_arguments(values: Iterable[Any]) -> int:
    """The GPU that a launch with these arguments runs on, as far as arrays tell where they are; -1 for the CPU, -2 for
    a GPU that is not present."""
    device = -1
    for value in values:
        place = getattr(value, "device", None)
        if getattr(place, "type", None) == "cuda":
            device = getattr(place, "index", None) or 0
        elif device < 0 and not hasattr(place, "type") and hasattr(value, "__cuda_array_interface__"):
            device = 0
    if device < 0 and names_gpu(knobs.target):
        from kiln import _kiln

        choose_driver()
        device = _kiln.cuda_current_device() if _kiln.cuda_device_count() else -2
    return device


def target_of_arguments(values: Iterable[Any]) -> str:
    """The row that a launch with these arguments is compiled for. The tuner uses it to keep the results of different
    machines apart."""
    return choose_target(device_of_arguments(values))


@functools.lru_cache(maxsize=64)
def row_of(device: int) -> str:
    """The row of the target table that best fits a GPU."""
    from kiln import _kiln

    choose_driver()
    major, minor = _kiln.cuda_capability(device)
    names = _kiln.target_names()
    fitting = [name for name in names if _runs(name, major, minor)]
    if not fitting:
        known = ", ".join(name for name in names if names_gpu(name))
        raise errors.UserError(
            f"expected a GPU that a row of the target table fits ({known}), got CUDA device {device} "
            f"({_kiln.cuda_properties(device)['name']}, compute capability {major}.{minor})"
        )
    return max(fitting, key=lambda name: (_parts(name)[1], _parts(name)[2]))


def _parts(row: str) -> tuple[int, int, str]:
    match = _ROW.fullmatch(row)
    return (int(match[1]), int(match[2]), match[3]) if match else (0, 0, "")


def _runs(row: str, major: int, minor: int) -> bool:
    """Code for a plain row runs on later GPUs of its generation; a row with `a` runs on exactly that one."""
    row_major, row_minor, letter = _parts(row)
    return row_major == major and (row_minor == minor if letter == "a" else row_minor <= minor)


def _check_row(target: str, device: int) -> None:
    from kiln import _kiln

    facts = _kiln.cuda_properties(device)
    major, minor = facts["capability"]
    if not _runs(target, major, minor):
        raise errors.UserError(
            f"expected a target that CUDA device {device} ({facts['name']}, compute capability {major}.{minor}) runs, "
            f"such as {row_of(device)}, got {target!r}"
        )

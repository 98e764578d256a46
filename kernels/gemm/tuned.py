"""Plans found by measuring, from a file written by ``kiln tune gemm``: ``tuned.json`` beside this one, or the file that
the switch ``tuned`` names.

A product in the file uses its plan. Any other uses the plan of the nearest product of its kind, by the logarithms of
its sides, that the model of ``configs.py`` expects to lose little here. If there is none, or if the model knows nothing
of such plans and the nearest is far, the model chooses.
"""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Iterator
from typing import Any

from kiln import knobs
from kiln.kernels.gemm import configs
from kiln.kernels.gemm.configs import GemmPlan, Problem
from kiln.kernels.machine import Machine
from kiln.tune.store import device_identity
from kiln.tune.table import Choice, Table, distance, read

SHIPPED = pathlib.Path(__file__).with_name("tuned.json")
# How much slower than the model's own plan another plan may be, by the model.
REGRET = 1.05
# Without a model: each side within a factor of about 1.5.
FAR = math.log(1.5)

_SIDES = ("m", "n", "k")
# Fields that measured products leave at their defaults; a measured plan may be used with others if it fits.
_BESIDE = ("vectors", "function", "scattered", "scaled")


def device_of(machine: Machine) -> dict[str, Any]:
    """The properties of a machine that a plan is valid for."""
    return dict(machine._asdict()) if machine.gpu else device_identity(-1, knobs.num_threads)


def source() -> str:
    """A digest of the kernels that the plans were measured with."""
    from kiln.kernels.gemm import kernel

    return kernel.matmul_kernel.cache_key


def entry(problem: Problem, machine: Machine, plan: GemmPlan, milliseconds: float) -> Choice:
    from dataclasses import asdict

    return Choice("gemm", device_of(machine), dict(problem._asdict()), asdict(plan), milliseconds, source())


@functools.lru_cache(maxsize=16)
def _entries(machine: Machine, table: Table) -> tuple[Choice, ...]:
    return tuple(table.of("gemm", device_of(machine), source())) if len(table) else ()


def find(problem: Problem, machine: Machine, path: str = "") -> GemmPlan | None:
    """The file's plan for a product, or None."""
    entries = _entries(machine, read(path or knobs.tuned or str(SHIPPED)))
    beside = {name: getattr(problem, name) for name in _BESIDE}
    for choice in entries:
        if {**choice.of, **beside} == problem._asdict():
            plan = GemmPlan(**choice.choice)
            return plan if _fits(plan, problem, machine) else None
    return next(_near(problem, machine, entries), None)


def _fits(plan: GemmPlan, problem: Problem, machine: Machine) -> bool:
    return plan.schedule == "cpu" or not configs.refusal(plan, problem, machine)


def _near(problem: Problem, machine: Machine, entries: tuple[Choice, ...]) -> Iterator[GemmPlan]:
    """Plans of other products that suit this one, the nearest first."""
    if not entries:
        return
    here = problem._asdict()
    sides = {name: here[name] for name in _SIDES}
    away = []
    for choice in entries:
        if all(choice.of.get(name) == value for name, value in here.items() if name not in (*_SIDES, *_BESIDE)):
            away.append((distance({name: choice.of[name] for name in _SIDES}, sides), choice))
    kind = configs.engine(problem, machine)
    streamed = configs.is_streamed(problem, kind)
    for far, choice in sorted(away, key=lambda found: (found[0], found[1].place)):
        plan = GemmPlan(**choice.choice)
        # These depend on the number of rows, or cut exactly the product they were made for.
        if streamed or plan.schedule in ("direct", "gemv") or plan.workers or not _fits(plan, problem, machine):
            continue
        if kind == "wgmma" and plan.with_roles:
            best = configs.ranked(problem, machine)[0]
            expected, least = (configs.microseconds(one, problem, machine) for one in (plan, best))
            if expected <= REGRET * least:
                yield plan
        elif far <= FAR:
            yield plan

"""Frozen mode: every specialisation that the launches of a program can ask for, compiled ahead into one bundle.

    from kiln.freeze import Domain, freeze

    domain = Domain(scale, "T=fp16|fp32, x=*T, y=*T, n=0..100000, factor=fp32, BLOCK=512|1024")
    freeze([domain], "bundle", targets=["cpu"])
    freeze_calls([lambda: rms_norm(x, weight)], "bundle", targets=["cpu", "sm_90a"])     # functions of the library

A bundle is a read-only artifact cache (`runtime/cache` in C++). With ``KILN_FROZEN=bundle`` no other cache is searched
and nothing is compiled: a launch outside the domains raises a `FrozenError` that names the argument, its value and the
missing variant. `kiln.freeze.domain` describes the syntax of domains.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kiln import errors, knobs
from kiln.freeze.domain import Asker, Domain

__all__ = ["Domain", "Frozen", "freeze", "freeze_calls"]

# More variants than this are surely a mistake in a domain.
MOST_VARIANTS = 20_000


@dataclass(frozen=True)
class Frozen:
    """The result of freezing: the number of variants, and how many of them were compiled now."""

    variants: int
    compiled: int


def freeze(domains: Sequence[Domain], bundle: str | os.PathLike[str], targets: Sequence[str], jobs: int = 1) -> Frozen:
    """Compiles everything that launches inside `domains` need on `targets`, rows of the target table, into the folder
    `bundle`. Existing entries are kept: further calls extend a bundle."""
    _check(targets)
    work: list[tuple[Any, Any, str]] = []
    for domain in domains:
        for target in targets:
            gpu = _kind(target) == "cuda"
            work += [(domain.kernel, found, target) for found in domain.enumerate(MOST_VARIANTS, gpu)]
    return _freeze_all(work, bundle, jobs)


def freeze_calls(
    calls: Iterable[Callable[[], Any]],
    bundle: str | os.PathLike[str],
    targets: Sequence[str],
    machine: Any = None,
    jobs: int = 1,
) -> Frozen:
    """Compiles all that calls of the library's functions launch, into the folder `bundle`. Nothing is run.

    calls      functions of no arguments that call the library with host arrays, whose contents do not matter: their
               shapes, types, strides, alignment and overlap do, as do all other arguments
    machine    the machine the launches are planned for (`kiln.kernels.machine.Machine`): plans depend on more than the
               target row, such as the number of multiprocessors. Default: an H100 or H200 for GPUs

    A library function plans its launches from the shapes, so a domain is a list of calls: for example, one for each
    batch size, as for captured graphs.
    """
    from kiln.kernels.machine import CPU, of_target, planning_for
    from kiln.runtime.jit import recording

    _check(targets)
    made = list(calls)
    work: dict[str, tuple[Any, Any, str]] = {}
    for target in targets:
        gpu = _kind(target) == "cuda"

        def at(kernel: Any, grid: Any, target: str = target, gpu: bool = gpu) -> Callable[..., None]:
            def ask(*args: Any, **kwargs: Any) -> None:
                names = {parameter.name for parameter in kernel.params}
                options = {name: value for name, value in kwargs.items() if name not in names}
                named = {name: value for name, value in kwargs.items() if name in names}
                found = Asker(kernel, options, gpu).ask(args, grid, named)
                what = (
                    kernel.__qualname__,
                    id(kernel),
                    found.parameters,
                    found.disjoint,
                    sorted(found.options.items()),
                )
                work.setdefault(repr((target, *what)), (kernel, found, target))

            return ask

        where = machine or (of_target(target) if gpu else CPU)
        with planning_for(where), knobs.scope(target="cpu"), recording(at):
            for call in made:
                call()
    return _freeze_all(list(work.values()), bundle, jobs)


def _kind(target: str) -> str:
    from kiln import _kiln

    return str(_kiln.target(target)["kind"])


def _check(targets: Sequence[str]) -> None:
    for target in targets:
        try:
            _kind(target)
        except ValueError as problem:
            raise errors.UserError(str(problem)) from None


def _freeze_all(work: Sequence[tuple[Any, Any, str]], bundle: str | os.PathLike[str], jobs: int) -> Frozen:
    with knobs.scope(
        cache=os.path.abspath(os.fspath(bundle)), cache_size=0, cache_readonly="", frozen="", check="none"
    ):
        scope = knobs.current_scope()

        def one(item: tuple[Any, Any, str]) -> bool:
            with knobs.enter_scope(scope):
                return _freeze(*item)

        # The first one alone, so that a mistake in a kernel is reported once.
        made = [one(item) for item in work[:1]]
        with ThreadPoolExecutor(max(jobs, 1)) as pool:
            made += pool.map(one, work[1:])
    return Frozen(len(work), sum(made))


def _freeze(kernel: Any, found: Any, target: str) -> bool:
    """Compiles one variant; returns whether that was needed. `found`: the specialisation, with launch options."""
    from kiln import compiler
    from kiln.runtime import cache, jit

    options: dict[str, Any] = {**jit._compile_options(kernel, found.options, _kind(target)), "target": target}

    def look() -> Any:
        return cache.Lookup(kernel, found.parameters, compiler.complete(options), found.disjoint)

    if look().by_source() is not None:
        return False
    jit._make_artifact(kernel, found.parameters, options, found.disjoint)
    lookup = look()
    if lookup.by_source() is None:
        why = lookup.inexact or "a compile of it warns or prints, or the bundle cannot be written"
        raise errors.UserError(f"kernel {kernel.__name__} cannot be frozen: {why}")
    return True

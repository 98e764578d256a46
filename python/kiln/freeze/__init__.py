"""Frozen mode: every specialisation that the launches of a program can ask for, compiled ahead into one bundle.

    from kiln.freeze import Domain, freeze

    domain = Domain(scale, "T=fp16|fp32, x=*T, y=*T, n=0..100000, factor=fp32, BLOCK=512|1024")
    freeze([domain], "bundle", targets=["cpu"])

A bundle is a cache of artifacts that is only read (`runtime/cache` in C++). With ``KILN_FROZEN=bundle`` nothing else is
looked into and nothing is compiled: a launch outside of the domains is a `FrozenError` that names the argument, its
value and the variant that is missing. What a domain may say is in `kiln.freeze.domain`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kiln import errors, knobs
from kiln.freeze.domain import Domain, Specialised

__all__ = ["Domain", "Frozen", "freeze"]

# More is a mistake in a domain rather than a wish.
MOST_VARIANTS = 20_000


@dataclass(frozen=True)
class Frozen:
    """What a bundle was made of: variants there are, and how many of them were compiled now."""

    variants: int
    compiled: int


def freeze(domains: Sequence[Domain], bundle: str | os.PathLike[str], targets: Sequence[str], jobs: int = 1) -> Frozen:
    """Compiles all that launches inside `domains` ask for on `targets`, rows of the target table, into the folder
    `bundle`. What is there already stays: a bundle grows by further calls."""
    from kiln import _kiln

    work: list[tuple[Domain, Specialised, str]] = []
    for target in targets:
        try:
            _kiln.target(target)
        except ValueError as problem:
            raise errors.UserError(str(problem)) from None
    for domain in domains:
        for target in targets:
            gpu = _kiln.target(target)["kind"] == "cuda"
            work += [(domain, found, target) for found in domain.enumerate(MOST_VARIANTS, gpu)]
    with knobs.scope(
        cache=os.path.abspath(os.fspath(bundle)), cache_size=0, cache_readonly="", frozen="", check="none"
    ):
        scope = knobs.current_scope()

        def one(item: tuple[Domain, Specialised, str]) -> bool:
            with knobs.enter_scope(scope):
                return _freeze(*item)

        # The first alone, so that a mistake in a kernel is told once.
        made = [one(item) for item in work[:1]]
        with ThreadPoolExecutor(max(jobs, 1)) as pool:
            made += pool.map(one, work[1:])
    return Frozen(len(work), sum(made))


def _freeze(domain: Domain, found: Specialised, target: str) -> bool:
    """Whether it had to be compiled."""
    from kiln import _kiln, compiler
    from kiln.runtime import cache, jit

    kernel = domain.kernel
    kind = _kiln.target(target)["kind"]
    options: dict[str, Any] = {**jit._compile_options(kernel, found.options, kind), "target": target}

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

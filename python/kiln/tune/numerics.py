"""Finds configurations with bitwise equal results, which `same_numerics=True` keeps.

The compiler reports the order in which a kernel's code combines floats (`compiler/analysis/Numerics.h`): a digest of
tile IR that includes the sides along which elements are combined and the steps of loops that carry sums, but not the
sides that only divide the work. On a GPU it also includes the matrix instructions and the layouts of reductions, since
they determine which elements are paired. Nothing is declared by hand.

Equal signatures give equal bits. Unequal signatures may give equal bits too: a sum of products on the CPU is computed
element by element, so the step along K does not change it, but it is part of the signature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln import errors


class Signature(NamedTuple):
    """`digest`: of the order in which floats are combined; `facts`: its parts that concern order; `products`: how a GPU
    multiplies and reduces."""

    digest: str
    facts: tuple[str, ...]
    products: tuple[str, ...] = ()

    @property
    def has_order(self) -> bool:
        """Whether two launches of one configuration give the same bits; atomic additions happen in any order."""
        return not any("in no order" in fact for fact in self.facts)


def signature_of(compiled: Any) -> Signature:
    """Of a `CompiledKernel`."""
    ((digest, facts, _),) = _numerics(compiled, "opt")
    if "cuda" not in compiled.metadata:
        return Signature(digest, tuple(facts))
    ((_, _, products),) = _numerics(compiled, "kgpu")
    return Signature(digest, tuple(facts), tuple(products))


def _numerics(compiled: Any, stage: str) -> list[tuple[str, list[str], list[str]]]:
    from kiln import _kiln

    found = _kiln.Module.parse(compiled.asm[stage]).numerics()
    if len(found) != 1:
        raise errors.InternalError(f"expected one kernel in stage {stage} of {compiled.name}, got {len(found)}")
    return found


def difference(default: Signature, other: Signature) -> str:
    """Why a configuration may give different bits than the default; "" if it gives the same."""
    if default == other:
        return ""
    for ours, theirs in ((default.facts, other.facts), (default.products, other.products)):
        gone, new = [fact for fact in ours if fact not in theirs], [fact for fact in theirs if fact not in ours]
        if gone or new:
            return f"combines floats in another order: {'; '.join(new) or 'no more'} where the default has " + (
                "; ".join(gone) or "none of that"
            )
    return "combines floats in another order than the default"

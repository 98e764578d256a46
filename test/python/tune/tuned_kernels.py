"""A kernel to tune, its configurations, and the times kept for them."""

from __future__ import annotations

import kiln
import kiln.language as kl


def kept_times():
    """How many times are kept there."""
    from kiln.runtime import cache

    return sum(entry["kind"] == "time" for entry in cache.store().entries())


def blocks(*sizes, **options):
    return [kiln.Config({"BLOCK": size}, **options) for size in sizes]


@kiln.jit
def fill(out, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, BLOCK, mask=i < n)

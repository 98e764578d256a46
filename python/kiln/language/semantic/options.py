"""Turns options given as strings (cache, eviction, padding, memory order) into attribute text."""

from __future__ import annotations

import builtins
from typing import Any

from kiln.errors import near_match

from .. import values
from ..values import unwrap
from .build import error
from .operand import describe

_LOAD_CACHE = {"": "none", ".ca": "ca", ".cg": "cg", ".cs": "cs", ".cv": "cv"}
_STORE_CACHE = {"": "none", ".wb": "wb", ".cg": "cg", ".cs": "cs", ".wt": "wt"}
_EVICTION = {"": "normal", "evict_normal": "normal", "evict_first": "evict_first", "evict_last": "evict_last"}
_PADDING = {"": None, "zero": "zero", "nan": "nan"}
_SEM = {None: "acq_rel", "": "acq_rel", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel",
        "relaxed": "relaxed"}  # fmt: skip
_SCOPE = {None: "gpu", "": "gpu", "gpu": "gpu", "cta": "cta", "sys": "sys"}


def choose(table: dict, value: Any, what: str) -> Any:
    value = unwrap(value)
    if value is None and None not in table:
        value = ""
    if isinstance(value, (str, type(None))) and value in table:
        return table[value]
    names = ", ".join(repr(k) for k in table if k)
    near = near_match(value, [k for k in table if k]) if isinstance(value, str) and len(value) > 3 else None
    hint = f"did you mean {near!r}?" if near else None
    raise error(f"expected one of {names} as {what}, got {describe(value)}", hint, argument=what)


def memory_attrs(cache: Any, eviction: Any, store: bool) -> dict[str, str]:
    """Attributes of a load or a store; options that were not given have none."""
    attrs = {}
    level = choose(_STORE_CACHE if store else _LOAD_CACHE, cache, "cache_modifier")
    priority = choose(_EVICTION, eviction, "eviction_policy")
    if level != "none":
        attrs["cache"] = f"#tile<cache {level}>"
    if priority != "normal":
        attrs["evict"] = f"#tile<evict {priority}>"
    return attrs


def padding(value: Any) -> str | None:
    """'zero', 'nan' or None."""
    return choose(_PADDING, value, "padding_option")


def order_attrs(sem: Any, scope: Any) -> dict[str, str]:
    """Attributes of an atomic."""
    return {
        "sem": f"#tile<sem {choose(_SEM, sem, 'sem')}>",
        "scope": f"#tile<scope {choose(_SCOPE, scope, 'scope')}>",
    }


def boundary(value: Any, rank: int) -> list[int]:
    """`boundary_check`: one dimension or several, sorted."""
    value = unwrap(value)
    if value is None:
        return []
    several = isinstance(value, (builtins.tuple, list, values.tuple))
    dims = [unwrap(d) for d in value] if several else [value]
    for dim in dims:
        if isinstance(dim, bool) or not isinstance(dim, int) or not 0 <= dim < rank:
            raise error(
                f"expected dimensions in [0, {rank}) as boundary_check, got {describe(dim)}", argument="boundary_check"
            )
    if len(set(dims)) != len(dims):
        raise error(f"expected each dimension once in boundary_check, got {dims}", argument="boundary_check")
    return sorted(dims)

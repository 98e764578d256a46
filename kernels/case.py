"""A measured example of a library function: what ``make demo`` runs and what the benchmarks sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kiln.kernels.operator import Spec, empty


@dataclass(frozen=True)
class Case:
    """One row of the demo's table.

    ``inputs(rng)`` makes the keyword arguments of ``run`` and of ``reference``; ``reference`` returns float64 arrays,
    structured like the result of ``run``. ``bytes`` counts each array's traffic once, ``flops`` the arithmetic of a
    matrix product (0 for kernels bound by memory). ``length`` is the number of terms summed into one output element:
    the tolerance grows with its square root.
    """

    name: str
    size: str
    inputs: Callable[[Any], dict[str, Any]]
    run: Callable[..., Any]
    reference: Callable[..., Any]
    bytes: int = 0
    flops: int = 0
    length: int = 1


def blank(shape: tuple[int, ...], dtype: str) -> Any:
    """An uninitialised numpy array: it takes memory only where it is touched."""
    import numpy as np

    return empty(Spec(shape, dtype), np.empty(0))


def blank_like(array: Any) -> Any:
    return empty(Spec(array.shape, array.dtype), array)

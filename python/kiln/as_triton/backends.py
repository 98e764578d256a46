"""`triton.backends`: what a machine is called. Kiln has one compiler and no backends in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["GPUTarget", "backends"]

backends: dict[str, Any] = {}
"""Triton's backends by name: none, the compiler is not in Python."""


@dataclass(frozen=True)
class GPUTarget:
    """A target: `("cuda", 90, 32)` for compute capability 9.0, `("cpu", "x86_64", 1)` for this machine's CPU."""

    backend: str
    arch: int | str
    warp_size: int

    def row(self) -> str:
        """The row of Kiln's target table: for a GPU the most special one of that compute capability."""
        from kiln import _kiln, errors

        if self.backend == "cpu":
            return "cpu"
        known = [row["name"] for row in _kiln.targets()]
        for letter in ("a", "f", ""):
            if self.backend == "cuda" and f"sm_{self.arch}{letter}" in known:
                return f"sm_{self.arch}{letter}"
        raise errors.UserError(f"expected a target that is a row of Kiln's table ({', '.join(known)}), got {self}")


def row_of_arch(arch: str) -> str:
    """The row of Kiln's target table for what Triton calls a GPU: "sm90", "sm90a" or 90."""
    from kiln import errors

    digits = arch.removeprefix("sm").removeprefix("_").rstrip("af")
    if not digits.isdigit():
        raise errors.UserError(f"expected an architecture such as 'sm80' or 'sm90', got {arch!r}")
    return GPUTarget("cuda", int(digits), 32).row()

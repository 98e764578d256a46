"""`triton.backends`: names of targets. Kiln has a single compiler and no backends in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["GPUTarget", "backends"]

backends: dict[str, Any] = {}
"""Triton's backends by name: empty, because Kiln's compiler is not written in Python."""


@dataclass(frozen=True)
class GPUTarget:
    """A target: `("cuda", 90, 32)` for compute capability 9.0, `("cpu", "x86_64", 1)` for this machine's CPU."""

    backend: str
    arch: int | str
    warp_size: int

    def row(self) -> str:
        """The row of Kiln's target table: for a GPU, the most specific one for its compute capability."""
        from kiln import _kiln, errors

        if self.backend == "cpu":
            return "cpu"
        known = [row["name"] for row in _kiln.targets()]
        for letter in ("a", "f", ""):
            if self.backend == "cuda" and f"sm_{self.arch}{letter}" in known:
                return f"sm_{self.arch}{letter}"
        raise errors.UserError(f"expected a target that is a row of Kiln's table ({', '.join(known)}), got {self}")


def row_of_arch(arch: str) -> str:
    """The row of Kiln's target table for a GPU as Triton names it: "sm90", "sm90a" or 90."""
    from kiln import errors

    digits = arch.removeprefix("sm").removeprefix("_").rstrip("af")
    if not digits.isdigit():
        raise errors.UserError(f"expected an architecture such as 'sm80' or 'sm90', got {arch!r}")
    return GPUTarget("cuda", int(digits), 32).row()

"""`triton.runtime._allocation`: programs name an allocator for scratch memory of kernels; Kiln's need none."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

__all__ = ["NullAllocator", "set_allocator", "set_profile_allocator"]


class NullAllocator:
    """The default allocator: there is nothing to allocate."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Any:
        raise RuntimeError("no allocator was set: triton.set_allocator sets one")


_allocator: ContextVar[Callable[..., Any] | None] = ContextVar("allocator", default=None)


def set_allocator(allocator: Callable[..., Any] | None) -> None:
    """`allocator(size, alignment, stream)` would give scratch memory. It is kept and never called: tensor descriptors
    made in kernels, the use Triton has for it, take none here."""
    _allocator.set(allocator)


def set_profile_allocator(allocator: Callable[..., Any] | None) -> None:
    """Does nothing: it is for Triton's profiler, which Kiln does not have."""

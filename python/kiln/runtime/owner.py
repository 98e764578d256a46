"""The interface that a `_kiln.Launcher` expects of its owner: a jit function, or an object that stands in for one.

`python/bindings/launch/Owner.h` is the C++ side of the same interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kiln._kiln import LaunchTerms


class Explainer(Protocol):
    """Words the errors of refused launches. Each method raises, except that `grid_key` raises only if the error is
    about the launch's arguments, and `strides` warns."""

    def binding(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> None: ...
    def argument(self, name: str, value: Any, message: str, hint: str, /) -> None: ...
    def grid(self, value: Any, message: str, /) -> None: ...
    def grid_key(self, error: KeyError, meta: dict[str, Any], /) -> None: ...
    def device(self, message: str, /) -> None: ...
    def preparing(self) -> None: ...
    def status(self, compiled: Any, code: str, message: str, need: tuple[str, int, int, str] | None, /) -> None: ...
    def failure(self, what: dict[str, Any], /) -> None: ...
    def strides(self, name: str, value: Any, /) -> None: ...


class LaunchOwner(Protocol):
    """The owner of a launcher."""

    __name__: str

    @property
    def refusals(self) -> Explainer: ...

    def _revalidate(self) -> LaunchTerms:
        """The terms of launches, valid until one of the watched values is replaced by another object."""

    def _compile(
        self,
        found: list[tuple[Any, ...]],
        options: dict[str, Any],
        key: bytes,
        disjoint: list[bool],
        device: int,
        prefix: str,
    ) -> Any:
        """The compiled kernel for a key that is new to the launcher. `found`: the specialised arguments; `disjoint`, by
        array: no other array overlaps its storage; `device`: a GPU's number, -1 for the CPU, -2 if nothing will run;
        `prefix`: what `_revalidate` gave the launch, on the same thread."""

    def _forget(self, compiled: Any) -> None:
        """Called when the launcher has dropped the compiled kernel."""

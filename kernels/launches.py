"""Lists what the library launches, without launching it: for ahead-of-time compilation and for tests of compiled code.

    for launch in launches_of(lambda: rms_norm(x, weight), DEFAULT_GPU):
        artifact = launch.compile("sm_90a")

Arguments are specialised by the launcher's own rules; blocks, warps and clusters are chosen as on the given machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kiln.kernels import FAMILIES, machine
from kiln.kernels.machine import DEFAULT_GPU, Machine
from kiln.runtime.interface import CodeRequest
from kiln.runtime.jit import JITFunction


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel, the specialisation of its code, the grid and the launch options."""

    kernel: JITFunction
    parameters: tuple[Any, ...]
    disjoint: tuple[bool, ...]
    grid: tuple[int, ...]
    options: Mapping[str, Any]

    def compile(self, target: str, to: str = "object", **options: Any) -> Any:
        """The artifact for a target row, compiled as far as the stage ``to``."""
        from kiln import _kiln, compiler, frontend
        from kiln.runtime.jit import _compile_options

        chosen = _compile_options(self.kernel, self.options, _kiln.target(target)["kind"])
        module = frontend.emit(self.kernel, list(self.parameters), self.kernel.__name__, disjoint=list(self.disjoint))
        return compiler.compile(module, {**chosen, "target": target, "to": to, **options})


class _Specialised(Exception):
    """Raised to leave a launch with the specialisation that the launcher found."""

    def __init__(self, request: CodeRequest):
        super().__init__()
        self.request = request


class _Binder(JITFunction):
    """A kernel whose launch stops just before compilation."""

    def _compile(self, request: CodeRequest) -> Any:
        raise _Specialised(request)


def launches_of(run: Callable[[], Any], where: Machine = DEFAULT_GPU) -> list[Launch]:
    """The launches that ``run()`` makes when its arrays are on ``where``. Nothing runs, and no array is read or
    written.

    The arrays are host arrays and may be uninitialised; the results are meaningless.
    """
    from kiln import knobs
    from kiln.runtime.jit import recording

    found: list[Launch] = []

    def at(kernel: JITFunction, grid: Any) -> Callable[..., None]:
        def bind(*args: Any, **kwargs: Any) -> None:
            names = {p.name for p in kernel.params}
            named = {name: value for name, value in kwargs.items() if name in names}
            binder = _Binder(kernel.fn)
            try:
                binder.run(*args, grid=(1,), **named)
            except _Specialised as stopped:
                seen = stopped.request
                options = {name: value for name, value in kwargs.items() if name not in names}
                shape = grid if isinstance(grid, tuple) else (grid,)
                found.append(Launch(kernel, tuple(seen.parameters), tuple(seen.disjoint), shape, options))

        return bind

    with machine.planning_for(where), knobs.scope(target="cpu"), recording(at):
        run()
    return found


def library_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Named calls that reach every kernel of the library in the forms that matter: each family's ``calls()``."""
    for family in FAMILIES:
        yield from importlib.import_module(f"kiln.kernels.{family}.cases").calls()

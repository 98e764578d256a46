"""Functions of yours that Kiln calls as it compiles, loads and launches: for profilers and logs.

    kiln.hooks.launch_enter.add(lambda launch: print(launch.name, launch.grid))

    compile_start, compile_end    a `CompileEvent`; only where code is new to the process, `cached` if not to the cache
    load_start, load_end          the `CompiledKernel`, before and after its code is in memory
    launch_enter, launch_exit     a `LaunchEvent`; on the CPU the kernel has run when `launch_exit` is called, on a GPU
                                  it is queued

They run on the thread that launches. An exception in a hook ends the launch; `…_end` and `launch_exit` are not called
after a failure. Without hooks a launch costs nothing extra.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CompileEvent(NamedTuple):
    """The start or the end of a compile; at the end `compiled` and `seconds` are set."""

    kernel: Any
    """The jit function."""
    parameters: tuple[Any, ...]
    """What it is specialised for."""
    options: dict[str, Any]
    """Launch options, as given."""
    target: str
    """The row of the target table."""
    device: int
    """The GPU it is for, -1 for the CPU, -2 for code that is only compiled."""
    compiled: Any = None
    seconds: float = 0.0
    cached: bool = False
    """Nothing was compiled: the cache had it."""
    steps: tuple[tuple[str, float], ...] = ()
    """Seconds of what it consisted of: `front end` (or the look into the cache that made it needless), `compiler`,
    `store`, `load`."""

    @property
    def name(self) -> str:
        return self.kernel.__name__


class LaunchEvent(NamedTuple):
    """One launch."""

    compiled: Any
    """The `CompiledKernel` that runs."""
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    """By name: those of the kernel, and launch options that were given."""

    @property
    def name(self) -> str:
        return self.compiled.name

    @property
    def metadata(self) -> dict[str, Any]:
        """The data that `kiln.jit(launch_metadata=f)` adds to the launch: `f(grid, metadata, arguments)`, and
        `name`."""
        rule = getattr(self.compiled.kernel, "launch_metadata", None)
        said = rule(self.grid, self.compiled.metadata, self.arguments) if rule is not None else {}
        return {"name": self.name, **said}


class Hooks:
    """Functions that are called one after the other, with one argument."""

    def __init__(self, changed: Callable[[], None] | None = None):
        self._functions: tuple[Callable[[Any], Any], ...] = ()
        self._changed = changed

    def add(self, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Calls `hook` from now on; returns it, so that `add` can be used as a decorator."""
        if not callable(hook):
            from kiln.errors import UsageError

            raise UsageError(f"expected a function as a hook, got {hook!r}")
        self._set((*self._functions, hook))
        return hook

    def remove(self, hook: Callable[[Any], Any]) -> None:
        """Stops calling `hook`; does nothing if it was not added."""
        self._set(tuple(other for other in self._functions if other != hook))

    def clear(self) -> None:
        self._set(())

    def _set(self, functions: tuple[Callable[[Any], Any], ...]) -> None:
        with _lock:
            self._functions = functions
            if self._changed is not None:
                self._changed()

    def __call__(self, event: Any) -> None:
        for function in self._functions:
            function(event)

    def __len__(self) -> int:
        return len(self._functions)

    def __iter__(self) -> Any:
        return iter(self._functions)


_lock = threading.RLock()


def _tell_launches() -> None:
    """Passes the hooks to C++, where launches are made."""
    from kiln import _kiln

    def caller(hooks: Hooks) -> Callable[..., None] | None:
        return (lambda *launch: hooks(LaunchEvent(*launch))) if hooks else None

    _kiln.set_launch_hooks(caller(launch_enter), caller(launch_exit))


compile_start, compile_end = Hooks(), Hooks()
load_start, load_end = Hooks(), Hooks()
launch_enter, launch_exit = Hooks(_tell_launches), Hooks(_tell_launches)

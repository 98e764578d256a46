"""Compiles configurations, several at a time, and finds those that do not fit.

Apart from the front end, a compile is C++ that does not hold the interpreter lock, so threads overlap compiles. A
configuration that does not fit the machine is merely dropped; a mistake in the kernel is the same in all of them, and
is raised on the requesting thread, whose line the message names.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kiln import errors, knobs
from kiln.tune.configs import Config

# Errors that only drop a configuration: it is too large for the machine, or the kernel's assertion excludes it.
REFUSALS = (errors.ResourceError, errors.StaticAssertionError)


def find_misfit(config: Config, given: Mapping[str, Any], row: str) -> str:
    """Why a configuration cannot fit the row's machine, whatever the kernel; "" if only a compile can tell.
    `given`: the options of the launch itself, which take precedence."""
    from kiln import _kiln

    target = _kiln.target(row)
    if target["kind"] != "cuda":
        return ""
    limits, options = target["limits"], {**config.all_kwargs(), **given}
    cluster = options.get("cluster") or options.get("num_ctas") or 1
    threads = 32 * (options.get("num_warps") or 4)
    registers = options.get("maxnreg") or 0
    for what, need, most in (
        ("threads of a block", threads, limits["max_threads"]),
        ("blocks of a cluster", cluster, limits["max_cluster"]),
        ("registers of a thread", registers, limits["max_registers"]),
    ):
        if isinstance(need, int) and need > most:
            return f"{need} {what}, of {most}"
    return ""


def processors() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


One = TypeVar("One", bound=Hashable)


def compile_all(
    configs: Sequence[One],
    compile: Callable[[One], Any],
    watch: Callable[[int], Any] = lambda done: None,
    threads: int | None = None,
) -> tuple[dict[One, Any], dict[One, Exception]]:
    """The code of each configuration, or why there is none. Errors other than REFUSALS are raised; of several, that of
    the first configuration. `watch` is called with the number of finished compiles."""
    threads = min(threads or processors(), len(configs))
    if threads <= 1:
        return _compile_in_turn(configs, compile, watch)
    with Compiles(configs, compile, threads, watch) as compiles:
        while compiles.take():
            pass
        return tuple({config: found[config] for config in configs if config in found}  # type: ignore[return-value]
                     for found in (compiles.codes, compiles.refused))  # fmt: skip


class Compiles(Generic[One]):
    """Compiles that run in threads, whose code is taken as it comes: `codes` and `refused` so far."""

    def __init__(
        self,
        configs: Sequence[One],
        compile: Callable[[One], Any],
        threads: int | None = None,
        watch: Callable[[int], Any] = lambda done: None,
    ):
        self.codes: dict[One, Any] = {}
        self.refused: dict[One, Exception] = {}
        self._compile, self._watch = compile, watch
        scope = knobs.current_scope()

        def work(config: One) -> Any:
            with knobs.enter_scope(scope):
                return compile(config)

        self._pool = concurrent.futures.ThreadPoolExecutor(threads or processors(), "kiln-tune")
        self._futures = {config: self._pool.submit(work, config) for config in configs}
        self._left = dict(self._futures)

    def __enter__(self) -> Compiles[One]:
        return self

    def __exit__(self, *_: Any) -> None:
        # After Ctrl-C, do not wait for running compiles.
        self._pool.shutdown(wait=False, cancel_futures=True)

    def take(self) -> list[One]:
        """Configurations whose compiles have ended since the last call. Waits for one if there is none; returns none
        when all have ended. Errors other than REFUSALS are raised once all have ended; of several, that of the first
        configuration."""
        concurrent.futures.wait(self._left.values(), return_when=concurrent.futures.FIRST_COMPLETED)
        ended = [config for config, future in self._left.items() if future.done()]
        if any(not isinstance(self._left[config].exception(), (type(None), *REFUSALS)) for config in ended):
            ended = list(self._futures)
            concurrent.futures.wait(self._left.values())
        for config in ended:
            future = self._futures[config]
            self._left.pop(config, None)
            problem = future.exception()
            if problem is None:
                self.codes[config] = future.result()
            elif isinstance(problem, REFUSALS):
                self.refused[config] = problem
            elif isinstance(problem, errors.UserError):
                self.codes[config] = self._compile(config)  # raises it here, where the caller's line is found
            else:
                raise problem
            self._watch(len(self.codes) + len(self.refused))
        return ended


def _compile_in_turn(
    configs: Sequence[One], compile: Callable[[One], Any], watch: Callable[[int], Any]
) -> tuple[dict[One, Any], dict[One, Exception]]:
    codes: dict[One, Any] = {}
    refused: dict[One, Exception] = {}
    for done, config in enumerate(configs, 1):
        try:
            codes[config] = compile(config)
        except REFUSALS as problem:
            refused[config] = problem
        watch(done)
    return codes, refused


def spilled(codes: Mapping[Config, Any]) -> dict[Config, int]:
    """Configurations that spill registers to local memory, and how many words. Empty if all spill, and for the CPU,
    where stack use means something else."""
    found = {config: words for config, compiled in codes.items() if (words := words_spilled(compiled))}
    return found if len(found) < len(codes) else {}


def words_spilled(compiled: Any) -> int:
    """Spilled words of code for a GPU; 0 if unknown."""
    if "cuda" in compiled.metadata and (compiled.loaded is not None or compiled.metadata["cuda"].get("usage")):
        return int(compiled.n_spills)
    return 0


def same_code(codes: Mapping[Config, Any], parameters: Sequence[str]) -> dict[Config, Config]:
    """For each configuration, the first one (possibly itself) that runs the same code on the same grid. On the CPU
    target many options have no effect. Names that are not among the kernel's `parameters` are options."""
    from kiln import _kiln

    seen: dict[Any, Config] = {}
    found = {}
    for config, compiled in codes.items():
        launch = ("launch", repr(sorted(compiled.metadata["cuda"].items()))) if "cuda" in compiled.metadata else ()
        meta = repr(sorted((name, value) for name, value in config.kwargs.items() if name in parameters))
        code = (_kiln.digest(compiled.artifact.binary), launch, meta, config.pre_hook)
        found[config] = seen.setdefault(code, config)
    return found

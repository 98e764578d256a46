"""Configurations to code, several at a time, and which of them do not fit.

A compile is C++ without the interpreter's lock, but for the front end that makes its IR: threads overlap the one with
the others. A configuration that does not fit the machine costs only itself; a mistake in the kernel is the same in all,
and is raised on the thread that asked, whose line the message names.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kiln import errors, knobs
from kiln.tune.configs import Config

# What a configuration may fail with: it is too large for the machine, or the kernel says that it is not made for it.
REFUSALS = (errors.ResourceError, errors.StaticAssertionError)


def find_misfit(config: Config, given: Mapping[str, Any], row: str) -> str:
    """Why a configuration cannot fit the row's machine whatever the kernel is; "" where only a compile can tell.
    `given`: what the launch says itself, which counts more."""
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
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


One = TypeVar("One", bound=Hashable)


def compile_all(
    configs: Sequence[One],
    compile: Callable[[One], Any],
    watch: Callable[[int], Any] = lambda done: None,
    threads: int | None = None,
) -> tuple[dict[One, Any], dict[One, Exception]]:
    """The code of each configuration, or why it has none. Anything that is not one of REFUSALS is raised: of several,
    what the first configuration met. `watch` is told how many are done."""
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
        # After Ctrl-C nobody waits for what is being compiled.
        self._pool.shutdown(wait=False, cancel_futures=True)

    def take(self) -> list[One]:
        """Configurations whose compiles have ended since it was called last: waits for one if there is none, and gives
        none when all have. Anything that is not one of REFUSALS is raised, as soon as all have ended: of several, what
        the first configuration met."""
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
    """Configurations whose threads keep registers in local memory, and how many words: none where all do, and none of
    the CPU, whose stack is another matter."""
    found = {config: words for config, compiled in codes.items() if (words := words_spilled(compiled))}
    return found if len(found) < len(codes) else {}


def words_spilled(compiled: Any) -> int:
    """Of code for a GPU; 0 where nobody can tell."""
    if "cuda" in compiled.metadata and (compiled.loaded is not None or compiled.metadata["cuda"].get("usage")):
        return int(compiled.n_spills)
    return 0


def same_code(codes: Mapping[Config, Any], parameters: Sequence[str]) -> dict[Config, Config]:
    """For each configuration the first one that runs the same code on the same grid, itself perhaps. On the CPU target
    many options change nothing, and what is none of the kernel's `parameters` is an option."""
    from kiln import _kiln

    seen: dict[Any, Config] = {}
    found = {}
    for config, compiled in codes.items():
        launch = ("launch", repr(sorted(compiled.metadata["cuda"].items()))) if "cuda" in compiled.metadata else ()
        meta = repr(sorted((name, value) for name, value in config.kwargs.items() if name in parameters))
        code = (_kiln.digest(compiled.artifact.binary), launch, meta, config.pre_hook)
        found[config] = seen.setdefault(code, config)
    return found

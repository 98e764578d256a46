"""`triton.runtime.autotuner`: Kiln's tuner with the attributes and methods that subclasses of Triton's override.

Tuners of libraries build on `run`, `_bench`, `prune_configs`, `pre_hook`, `post_hook`, `nargs`, `cache` and
`configs_timings`. Kiln's own tuner does the measuring: configurations are compiled in parallel and race. They are timed
one after the other only if something overrides that: a `do_bench`, a subclass with its own `_bench`, another driver's
benchmarker, or hooks that are notified of every compile. `Config` is Kiln's.
"""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiln import errors
from kiln.as_triton import knobs
from kiln.as_triton.errors import AutotunerError, CompileTimeAssertionFailure, OutOfResources, PTXASError
from kiln.as_triton.jit import OPTIONS_OF_AMD, JITFunction, listen_to_compiles
from kiln.runtime import autotuner as kiln_autotuner
from kiln.runtime import placement
from kiln.runtime.autotuner import Config
from kiln.runtime.interface import KernelInterface, is_traced_by_torch
from kiln.tune import compiling

if TYPE_CHECKING:
    from kiln._kiln import TunedAnswer

__all__ = [
    "Autotuner",
    "AutotunerError",
    "Config",
    "Heuristics",
    "OutOfResources",
    "PTXASError",
    "autotune",
    "heuristics",
]

_NEVER = float("inf")
_CPU_REP_MS = 10.0
"""Default milliseconds of launches for each configuration on the CPU."""

log = logging.getLogger("kiln.autotune")


class _Wrapper(KernelInterface):
    """A kernel wrapped by a decorator; attributes that the wrapper lacks are the kernel's."""

    def __getattr__(self, name: str) -> Any:
        if name == "fn" or (name.startswith("_") and not name.startswith("__")):
            raise AttributeError(name)
        return getattr(self.fn, name)


class Autotuner(_Wrapper):
    """A kernel with configurations to choose from, the best for each key. Made by `triton.autotune`."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ):
        self.fn = fn
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn
        self.arg_names, self.keys = arg_names, key
        self.configs = configs or [Config({})]
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.restore_copies: dict[str, Any] = {}
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook = pre_hook or self._reset
        self.post_hook = post_hook or self._restore
        pruning = dict(prune_configs_by or {})
        self.perf_model = pruning.get("perf_model")
        self.configs_top_k = pruning.get("top_k", 1.0)
        self.early_config_prune = pruning.get("early_config_prune")
        self.num_warmups, self.num_reps = warmup, rep
        self.use_cuda_graph = use_cuda_graph
        self._do_bench = do_bench
        self.cache_results = cache_results or knobs.autotuning.cache
        self._native: Any = None  # the launcher for known keys; made at the first launch
        self._last: Config | None = None
        self.cache = {}
        self.configs_timings: dict[Config, Any] = {}
        self.bench_time = 0.0
        self.nargs: dict[str, Any] | None = None

    @property
    def cache(self) -> Any:
        """The configuration of each key: the tuner's own, or what a subclass has put in its place."""
        return self._winners

    @cache.setter
    def cache(self, winners: Any) -> None:
        if type(winners) is dict:
            winners = kiln_autotuner.Winners(winners)
            winners.changed = self._forget_answers
        self._winners = winners
        self._forget_answers()

    def _forget_answers(self) -> None:
        if self._native is not None:
            self._native.forget()

    @property
    def best_config(self) -> Config | None:
        """Of the last launch."""
        return self._last if self._native is None else self._native.last

    @best_config.setter
    def best_config(self, config: Config | None) -> None:
        if self._native is None:
            self._last = config
        else:
            self._native.last = config

    # -- arrays that measuring must not change ---------------------------------------------

    def _reset(self, arguments: Mapping[str, Any], reset_only: bool = False) -> None:
        """Before a measured launch: zeros, and copies of `restore_value`. None stands for an array left out."""
        for name in self.reset_to_zero:
            _fill(arguments[name], 0)
        if not reset_only:
            self.restore_copies = {name: _copy(arguments[name]) for name in self.restore_value}

    def _restore(self, arguments: Mapping[str, Any], exception: BaseException | None) -> None:
        for name, copy in self.restore_copies.items():
            _fill(arguments[name], copy)
        self.restore_copies = {}

    # -- measuring -------------------------------------------------------------------------

    @property
    def do_bench(self) -> Callable[..., Any]:
        if self._do_bench is not None:
            return self._do_bench
        from kiln.as_triton.driver import driver

        spent = {"warmup": self.num_warmups, "rep": self.num_reps}
        spent = {name: ms for name, ms in spent.items() if ms is not None}
        measure = driver.active.get_benchmarker()
        return lambda call, quantiles: measure(call, quantiles=quantiles, **spent)

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Any:
        """Milliseconds of a launch with `config` (median, 20 %, 80 %); infinite for one that does not fit."""
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")
        self._check_conflicts(config, meta)
        current = {**meta, **config.all_kwargs()}
        arguments = {**(self.nargs or {}), **current}

        def call() -> None:
            if config.pre_hook:
                config.pre_hook(arguments)
            self.pre_hook(arguments)
            try:
                self.fn.run(*args, **current)
            except Exception as error:
                self.post_hook(arguments, exception=error)
                raise
            self.post_hook(arguments, exception=None)

        try:
            return self.do_bench(call, quantiles=(0.5, 0.2, 0.8))
        except (errors.ResourceError, CompileTimeAssertionFailure, PTXASError) as error:
            if knobs.autotuning.print:
                print(f"Autotuning failed with {error}")
            return [_NEVER, _NEVER, _NEVER]

    def prune_configs(self, kwargs: dict[str, Any]) -> Sequence[Config]:
        """The configurations worth measuring for the arguments at hand."""
        configs = self.configs
        if self.early_config_prune:
            configs = self.early_config_prune(configs, self.nargs, **kwargs)
            if not configs:
                raise AutotunerError("No valid autotuner configs after pruning: early_config_prune kept none.")
        if self.perf_model:
            count = self.configs_top_k
            if isinstance(count, float) and count <= 1.0:
                count = int(len(self.configs) * count)
            elif not isinstance(count, int):
                raise TypeError(f"expected top_k to be a float of at most 1.0 or an int, got {count!r}")
            if len(configs) > count:
                arguments = {**(self.nargs or {}), **kwargs}
                expected = {config: self.perf_model(**arguments, **config.all_kwargs()) for config in configs}
                configs = sorted(configs, key=expected.__getitem__)[:count]
        return configs

    def _tune(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        configs = self.prune_configs(kwargs)
        stored = self._file(key, configs)
        timings = _load(stored, configs)
        if timings is None:
            start = time.perf_counter()
            timings = self._measure(key, configs, args, kwargs)
            self.bench_time = time.perf_counter() - start
            _store(stored, key, timings)
        best = min(timings, key=timings.__getitem__)
        if not _finite(timings[best]):
            # Launch once more outside of the measurement: its own error says more than "nothing fits".
            self.fn.run(*args, **{**kwargs, **best.all_kwargs()})
        self.cache[key] = best
        self.configs_timings = timings
        self.pre_hook({**(self.nargs or {}), **kwargs, **best.all_kwargs()}, reset_only=True)

    def _measure(
        self, key: tuple[Any, ...], configs: Sequence[Config], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[Config, Any]:
        """A timing for each configuration: by Kiln's tuner, or one after the other."""
        for config in configs:
            self._check_conflicts(config, kwargs)
        return (self._bench_in_turn if self._has_own_way() else self._race)(key, configs, args, kwargs)

    def _has_own_way(self) -> bool:
        """Whether anything but Kiln decides how a configuration is measured, or is notified of each compile."""
        from kiln.as_triton.driver import driver

        kind, runtime = type(self), knobs.runtime
        return bool(
            self._do_bench is not None
            or kind._bench is not Autotuner._bench
            or kind.do_bench is not Autotuner.do_bench
            or driver.active is not driver.default
            or runtime.jit_cache_hook
            or runtime.jit_post_compile_hook
        )

    def _race(
        self, key: tuple[Any, ...], configs: Sequence[Config], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[Config, Any]:
        """By a tuner of Kiln's, made for these configurations."""
        # Hooks with which a user or a subclass replaced the tuner's must handle the arrays themselves.
        before = None if self.pre_hook == self._reset else self.pre_hook
        after = None if self.post_hook == self._restore else self.post_hook
        # On the CPU a launch is slow and steady, and libraries have hundreds of configurations.
        rep = _CPU_REP_MS if self.num_reps is None and self._is_on_cpu(kwargs) else self.num_reps
        arrays = [name for name in self.arg_names if self._given(name, kwargs) is not None]
        tuner = kiln_autotuner.Autotuner(
            self.fn, self.arg_names, configs, [name for name in self.keys if name in self.arg_names],
            [] if before else [name for name in self.reset_to_zero if name in arrays],
            [] if before else [name for name in self.restore_value if name in arrays],
            before, after, warmup=self.num_warmups, rep=rep, use_cuda_graph=self.use_cuda_graph,
        )  # fmt: skip
        listen_to_compiles()  # without listeners, compiles run in parallel
        asked = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with {len(configs)} configs")
        try:
            tuner._choose(key, args, asked, kwargs["grid"])
        except errors.LaunchError as error:
            if not isinstance(error.__cause__, compiling.REFUSALS):
                raise
            log.info("%s: no configuration fits", self.base_fn.__name__)
        return {config: tuner.configs_timings.get(config, [_NEVER] * 3) for config in configs}

    def _is_on_cpu(self, kwargs: Mapping[str, Any]) -> bool:
        arguments = [*(self.nargs or {}).values(), *kwargs.values()]
        return not placement.names_gpu(placement.target_of_arguments(arguments))

    def _given(self, name: str, kwargs: Mapping[str, Any]) -> Any:
        return kwargs[name] if name in kwargs else (self.nargs or {}).get(name)

    def _bench_in_turn(
        self, key: tuple[Any, ...], configs: Sequence[Config], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[Config, Any]:
        """Measures by `_bench`. On the CPU, configurations that differ only in GPU options are measured once (again if
        the measured one does not fit)."""
        on_cpu = self._is_on_cpu(kwargs)
        measured: dict[Any, Any] = {}
        timings = {}
        for config in configs:
            code: Any = config
            if on_cpu:
                meta = {name: value for name, value in config.kwargs.items() if name not in OPTIONS_OF_AMD}
                code = repr(sorted(meta.items())), config.pre_hook
            if code not in measured or not _finite(measured[code]):
                measured[code] = self._bench(*args, config=config, **kwargs)
            timings[config] = measured[code]
        return timings

    def _check_conflicts(self, config: Config, meta: Mapping[str, Any]) -> None:
        both = sorted(meta.keys() & config.kwargs.keys())
        if both:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(both)}: they are the tuner's to choose.")

    # -- launching -------------------------------------------------------------------------

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the key arguments (names that the kernel lacks are left out), and every array's type."""
        given = {**(self.nargs or {}), **kwargs}
        known = {name: value for name, value in given.items() if name in self.arg_names}
        values = [known[name] for name in self.keys if name in known]
        return (*values, *(str(value.dtype) for value in known.values() if hasattr(value, "dtype")))

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """As `run`; if that is not overridden and there are no hooks, a known key is launched without Python."""
        kernel = self.fn
        plain = (
            type(self).run is Autotuner.run
            and type(kernel) is JITFunction
            and type(self._winners) is kiln_autotuner.Winners
            and not kernel.pre_run_hooks
            and not knobs.tells_launches()
            and not is_traced_by_torch()
        )
        if not plain:
            return super().__getitem__(grid)
        return (self._native or self._make_native()).at(grid)

    def _make_native(self) -> Any:
        launcher = self.fn._launcher or self.fn._make_launcher()
        last, keys = self._last, [name for name in self.keys if name in self.arg_names]
        places: list[tuple[int, list[str]]] = [(self.arg_names.index(name), []) for name in keys]
        self._native = launcher.tuned(self._answer, self.run, places)
        self._native.last = last
        return self._native

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> TunedAnswer | None:
        """Answers the native launcher, which asks once for each key: see python/bindings/launch/Tuned.h."""
        if len(self.configs) == 1:
            return None  # nothing to choose, and writes to `configs` are not noticed
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self._find(args, {**kwargs, "grid": grid})
        self.nargs = None
        if config.pre_hook is not None:
            return None
        self._check_conflicts(config, kwargs)
        return config.as_answer()

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        """The configuration for these arguments; measured where their key is new."""
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key(args, kwargs)
        if key not in self.cache:
            self._tune(key, args, kwargs)
            if knobs.autotuning.print:
                print(
                    f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {key},\n"
                    f"finished after {self.bench_time:.2f}s,\nbest config selected: {self.cache[key]};"
                )
        return self.cache[key]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        self.best_config = config = self._find(args, kwargs)
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
        self.nargs = None
        return result

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compiles every configuration for these arguments without launching one."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = list(self.prune_configs(kwargs))
        told = knobs.runtime.jit_cache_hook or knobs.runtime.jit_post_compile_hook
        codes, refused = compiling.compile_all(
            configs,
            lambda config: self.fn.warmup(*args, **{**kwargs, **config.all_kwargs()}),
            threads=1 if told else None,
        )
        self.nargs = None
        for problem in refused.values():
            raise problem
        return [codes[config] for config in configs]

    # -- results on disk -------------------------------------------------------------------

    def _file(self, key: tuple[Any, ...], configs: Sequence[Config]) -> Any:
        """Where timings are kept: a folder and a name, or None. Hooks cannot be: such a kernel is measured again."""
        if not self.cache_results or any(config.pre_hook for config in configs):
            return None
        from kiln import _kiln
        from kiln.as_triton.cache import get_cache_manager, triton_key
        from kiln.as_triton.driver import driver

        fn = self.fn
        while not hasattr(fn, "cache_key"):
            fn = fn.fn
        parts = [triton_key(), str(driver.active.get_current_target()), fn.cache_key, str(key), *map(str, configs)]
        return get_cache_manager(_kiln.digest("\0".join(parts).encode())), f"{fn.__name__[:150]}.autotune.json"


def _finite(timing: Any) -> bool:
    return (timing[0] if isinstance(timing, (list, tuple)) else timing) != _NEVER


def _load(stored: Any, configs: Sequence[Config]) -> dict[Config, Any] | None:
    path = stored and stored[0].get_file(stored[1])
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            timings = json.load(file)["timings"]
        return dict(zip(configs, timings, strict=True))
    except (OSError, ValueError, KeyError):
        return None


def _store(stored: Any, key: tuple[Any, ...], timings: Mapping[Config, Any]) -> None:
    if stored:
        content = {"key": repr(key), "configs": list(map(str, timings)), "timings": list(timings.values())}
        stored[0].put(json.dumps(content), stored[1], binary=False)


def _copy(array: Any) -> Any:
    if array is None:
        return None
    return array.clone() if hasattr(array, "clone") else array.copy()


def _fill(array: Any, value: Any) -> None:
    """An array set to a number or to another array: of torch, or anything that takes assignments."""
    if array is None:
        return
    if hasattr(array, "copy_"):
        array.zero_() if isinstance(value, int) else array.copy_(value)
    else:
        array[...] = value


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Measures `configs` when the `key` arguments are new, and launches the best from then on."""

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by,
            warmup, rep, use_cuda_graph, do_bench, cache_results,
        )  # fmt: skip

    return decorate


class Heuristics(_Wrapper):
    """A kernel some of whose meta-parameters and launch options follow from its arguments."""

    def __init__(self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]):
        self.fn, self.arg_names, self.values = fn, arg_names, values

    def run(self, *args: Any, **kwargs: Any) -> Any:
        for name, rule in self.values.items():
            kwargs[name] = rule({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.run(*args, **kwargs)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Computes meta-parameters at each launch: `values` maps a name to a function of the arguments by name."""
    return lambda fn: Heuristics(fn, fn.arg_names, values)

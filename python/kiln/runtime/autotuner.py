"""`kiln.autotune`: measures the configurations of a kernel once for each key, then launches the best one.
`kiln.heuristics`: computes meta-parameters from the other arguments.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kiln import errors
from kiln.runtime.interface import LAUNCH_OPTIONS, KernelInterface, is_traced_by_torch, module_attribute
from kiln.runtime.jit import JITFunction
from kiln.tune.arguments import field_of, leaves
from kiln.tune.configs import Config, Hook

if TYPE_CHECKING:
    from kiln._kiln import TunedAnswer

__all__ = ["Autotuner", "Config", "Heuristics", "autotune", "heuristics"]


class _Decorated(KernelInterface):
    """A kernel wrapped by a decorator; attributes of the kernel are attributes of the wrapper too."""

    def __init__(self, fn: Any, arg_names: Iterable[str]):
        self.fn = fn
        self.arg_names = list(arg_names)
        # The class has its own, so __getattr__ would not be asked.
        self.__module__, self.__doc__ = fn.__module__, fn.__doc__

    def __getattr__(self, name: str) -> Any:
        # A tuned kernel has the attributes of a jit function: __name__, cache_key, params …
        if name == "fn" or (name.startswith("_") and not name.startswith("__")):
            raise AttributeError(name)
        return getattr(self.fn, name)

    def __reduce__(self) -> Any:
        """Pickles by reference if the kernel is an attribute of its module, as functions do; else by its parts."""
        name = module_attribute(self)
        if name is not None:
            return name
        state = {key: value for key, value in vars(self).items() if key not in _NOT_PICKLED}
        if isinstance(self, Autotuner):
            state.update(winners=dict(self.cache), _last=self.best_config)
        return _restore, (type(self), state)


# State that is not pickled: a lock, and recorded failures.
_NOT_PICKLED = ("_lock", "_refused", "_native", "_winners")


def _restore(kind: type[_Decorated], state: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    vars(made).update(state)
    if isinstance(made, Autotuner):
        winners = vars(made).pop("winners", {})
        vars(made).update(_lock=threading.RLock(), _refused={}, _native=None)
        made.cache = winners
    return made


# Types of arguments that have no element type, so that launches need not ask them for one.
_PLAIN = frozenset((int, float, bool, str, type(None)))


class Winners(dict[tuple[Any, ...], Config]):
    """The configuration of each key. The native launcher is notified when one changes."""

    changed: Callable[[], Any] | None = None

    def _tell(self) -> None:
        if self.changed is not None:
            self.changed()

    def __setitem__(self, key: tuple[Any, ...], config: Config) -> None:
        known = key in self
        super().__setitem__(key, config)
        if known:
            self._tell()

    def __delitem__(self, key: tuple[Any, ...]) -> None:
        super().__delitem__(key)
        self._tell()

    def clear(self) -> None:
        super().clear()
        self._tell()

    def pop(self, *args: Any) -> Any:
        found = super().pop(*args)
        self._tell()
        return found

    def popitem(self) -> tuple[tuple[Any, ...], Config]:
        found = super().popitem()
        self._tell()
        return found

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._tell()

    def setdefault(self, *args: Any) -> Any:
        found = super().setdefault(*args)
        self._tell()
        return found

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc,override]
        self.update(other)
        return self


class Autotuner(_Decorated):
    """A kernel with configurations to choose from. Made by `kiln.autotune`.

    best_config       the configuration of the last launch
    configs_timings   the measurements that led to the last choice: milliseconds (median, 20th and 80th percentile) by
                      configuration
    timings           the medians, by key
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Iterable[str],
        configs: Iterable[Config],
        key: Iterable[str],
        reset_to_zero: Iterable[str] | None = None,
        restore_value: Iterable[str] | None = None,
        pre_hook: Hook | None = None,
        post_hook: Hook | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool | None = None,
        isolate: bool = False,
        timeout: float = 10.0,
        same_numerics: bool = False,
        tuned: str | os.PathLike[str] | None = None,
    ):
        super().__init__(fn, arg_names)
        self.configs = list(configs) or [Config({})]
        self.keys = _names(fn, "key", key)
        self.reset_to_zero = _names(fn, "reset_to_zero", reset_to_zero)
        self.restore_value = _names(fn, "restore_value", restore_value)
        self.user_pre_hook, self.user_post_hook = pre_hook, post_hook
        pruning = dict(prune_configs_by or {})
        self.perf_model = pruning.pop("perf_model", None)
        self.top_k = pruning.pop("top_k", 1.0)
        self.early_config_prune = pruning.pop("early_config_prune", None)
        if pruning:
            name = next(iter(pruning))
            near = errors.near_match(name, ("perf_model", "top_k", "early_config_prune"))
            raise errors.UsageError(
                f"autotune of {_base(fn).__name__}: expected perf_model, top_k and early_config_prune in"
                f" prune_configs_by, got {name!r}",
                hint=f"did you mean {near!r}?" if near else None,
            )
        share = isinstance(self.top_k, float) and 0 < self.top_k <= 1
        if not share and (not isinstance(self.top_k, int) or isinstance(self.top_k, bool) or self.top_k < 1):
            raise errors.UsageError(
                f"autotune of {_base(fn).__name__}: expected top_k to be how many configurations to measure,"
                f" 1 or more, or which share of them, above 0.0 and up to 1.0, got {self.top_k!r}"
            )
        for config in self.configs:
            if not isinstance(config, Config):
                raise errors.UsageError(
                    f"autotune of {_base(fn).__name__}: expected a list of kiln.Config, got {config!r}",
                    hint=f"write kiln.Config({config!r})" if isinstance(config, dict) else None,
                )
        for name, number, least in (("warmup", warmup, 0.0), ("rep", rep, 0.0), ("timeout", timeout, 1e-3)):
            if number is not None and not (isinstance(number, (int, float)) and number >= least):
                unit = "seconds, above 0" if least else "milliseconds, 0 or more"
                raise errors.UsageError(f"autotune of {_base(fn).__name__}: expected {name} in {unit}, got {number!r}")
        self.warmup_ms, self.rep_ms = warmup, rep
        self.use_cuda_graph = use_cuda_graph
        self.user_do_bench = do_bench
        self.cache_results = cache_results
        self.isolate, self.timeout, self.same_numerics = isolate, timeout, same_numerics
        self.tuned = None if tuned is None else os.fspath(tuned)
        if isolate and do_bench is not None:
            raise errors.UsageError(
                f"autotune of {_base(fn).__name__}: expected no do_bench with isolate=True (because it would run in"
                " another process), got both"
            )
        self._native: Any = None  # launches known keys; made at the first launch
        self._last: Config | None = None
        self.cache = {}
        self.timings: dict[tuple[Any, ...], dict[Config, float]] = {}
        self.configs_timings: dict[Config, list[float]] = {}
        self._refused: dict[Config, Exception] = {}
        self.bench_time = 0.0
        self._lock = threading.RLock()
        # `x.rows` is a field of the struct passed for x.
        for name in (*self.keys, *self.reset_to_zero, *self.restore_value):
            if name.partition(".")[0] not in self.arg_names:
                raise _no_parameter("autotune", fn, name)
        parts = [(name.partition(".")[0], name.partition(".")[2]) for name in self.keys]
        self._key_places = [(name, self.arg_names.index(name), fields) for name, fields in parts]

    @property
    def base_fn(self) -> Any:
        return _base(self.fn)

    @property
    def cache(self) -> dict[tuple[Any, ...], Config]:
        """The configuration of each key."""
        return self._winners

    @cache.setter
    def cache(self, winners: Mapping[tuple[Any, ...], Config]) -> None:
        self._winners = Winners(winners)
        self._winners.changed = self._forget_answers
        self._forget_answers()

    def _forget_answers(self) -> None:
        if self._native is not None:
            self._native.forget()

    @property
    def best_config(self) -> Config | None:
        """The configuration of the last launch."""
        return self._last if self._native is None else self._native.last

    @best_config.setter
    def best_config(self, config: Config | None) -> None:
        if self._native is None:
            self._last = config
        else:
            self._native.last = config

    # -- choosing --------------------------------------------------------------------------

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the key arguments, the element type of every array, and the GPU of the first array on one.
        Computed at each launch."""
        key: list[Any] = []
        device = None
        for name, place, fields in self._key_places:
            if place < len(args):
                key.append(field_of(args[place], fields))
            elif name in kwargs:
                key.append(field_of(kwargs[name], fields))
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) in _PLAIN:
                continue
            for leaf in leaves(value) if isinstance(value, tuple) else (value,):
                kind = getattr(leaf, "dtype", None)
                if kind is not None:
                    key.append(kind)
                    if device is None and getattr(getattr(leaf, "device", None), "type", "cpu") == "cuda":
                        device = leaf.device
        if device is not None:
            key.append(device)
        return tuple(key)

    def prune_configs(self, arguments: dict[str, Any], kwargs: dict[str, Any]) -> list[Config]:
        """The configurations worth measuring for these arguments."""
        configs = self.configs
        if self.early_config_prune is not None:
            kept = self.early_config_prune(configs, arguments, **kwargs)
            kept = list(kept) if isinstance(kept, Iterable) else kept
            if not isinstance(kept, list) or not all(isinstance(config, Config) for config in kept):
                raise errors.LaunchError(
                    f"expected early_config_prune to return a list of kiln.Config, got {kept!r}",
                    kernel=self.base_fn.__name__,
                )
            if not kept:
                raise errors.LaunchError(
                    f"expected early_config_prune to keep a configuration, got none of {len(self.configs)}",
                    kernel=self.base_fn.__name__,
                )
            configs = kept
        if self.perf_model is not None:
            count = self.top_k if isinstance(self.top_k, int) else max(1, int(len(self.configs) * self.top_k))
            if len(configs) > count:
                expected = {config: self._expect({**arguments, **kwargs}, config) for config in configs}
                configs = sorted(configs, key=expected.__getitem__)[:count]
        return configs

    def _expect(self, arguments: dict[str, Any], config: Config) -> float:
        """The time `perf_model` expects for a configuration; infinite if it returns NaN."""
        found = self.perf_model(**{**arguments, **config.all_kwargs()})
        try:
            time = float(found)
        except (TypeError, ValueError):
            raise errors.LaunchError(
                f"expected perf_model to return a time for {config}, got {found!r}", kernel=self.base_fn.__name__
            ) from None
        return math.inf if math.isnan(time) else time

    @property
    def keeps_times(self) -> bool:
        """Whether times are stored for other processes; those from a user's `do_bench` only on request."""
        return self.user_do_bench is None if self.cache_results is None else self.cache_results

    @property
    def method(self) -> str:
        """How times are measured; times from different methods are never compared."""
        return "race" if self.user_do_bench is None else "do_bench"

    def check_conflicts(self, config: Config, kwargs: Mapping[str, Any]) -> None:
        if not config.kwargs.keys().isdisjoint(kwargs):
            both = sorted(config.kwargs.keys() & kwargs.keys())
            raise errors.LaunchError(
                f"expected no value for {', '.join(map(repr, both))} (because the tuner chooses it), got"
                f" {', '.join(repr(kwargs[name]) for name in both)}",
                kernel=self.base_fn.__name__,
                hint="leave it out, or launch the kernel without its autotune decorator",
            )

    def _choose(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Config:
        from kiln.tune.tuning import Tuning

        tuning = Tuning(self, key, args, kwargs, grid)
        best = tuning.run()
        self.configs_timings = tuning.measured
        self.timings[key] = {config: times[0] for config, times in tuning.measured.items()}
        self._refused = tuning.refused
        return best

    # -- launching -------------------------------------------------------------------------

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        if is_traced_by_torch():
            from kiln.runtime import torch_graph

            return torch_graph.launch(self, grid, args, kwargs)
        if warmup:
            pruned = self.prune_configs({**dict(zip(self.arg_names, args, strict=False)), **kwargs}, kwargs)
            return [self.fn.run(*args, grid=grid, warmup=True, **{**c.all_kwargs(), **kwargs}) for c in pruned]
        return self.fn.run(*args, grid=grid, **self._meta(args, kwargs, grid))

    def prepare(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        return self.fn.prepare(*args, grid=grid, **self._meta(args, kwargs, grid))

    prepare.__doc__ = KernelInterface.prepare.__doc__

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Config:
        """The configuration for these arguments; measured if their key is new."""
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key(args, kwargs)
        found = self.cache.get(key)
        if found is None:
            with self._lock:
                found = self.cache.get(key)
                if found is None:
                    found = self.cache[key] = self._choose(key, args, kwargs, grid)
        return found

    def _meta(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        """The arguments that the kernel is passed by name."""
        config = self.best_config = self._find(args, kwargs, grid)
        meta = config.launch_kwargs()
        if kwargs:
            self.check_conflicts(config, kwargs)
            meta = {**meta, **kwargs}
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()})
        return meta

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> TunedAnswer | None:
        """Answers the native launcher, which asks once for each key: see python/bindings/launch/Tuned.h."""
        if len(self.configs) == 1:
            return None  # nothing to choose, and writes to `configs` are not noticed
        config = self._find(args, kwargs, grid)
        if config.pre_hook is not None:
            return None
        self.check_conflicts(config, kwargs)
        return config.as_answer()

    def _make_native(self) -> Any:
        with self._lock:
            if self._native is None:
                launcher = self.fn._launcher or self.fn._make_launcher()
                places = [(place, fields.split(".") if fields else []) for _, place, fields in self._key_places]
                native = launcher.tuned(self._answer, self.run, places)
                native.last = self._last
                if type(self).__getitem__ is Autotuner.__getitem__:
                    native.adopt(self)
                self._native = native
        return self._native

    # Not called once the kernel has been launched: see `TunedLauncher.adopt`, which needs the starred parameter.
    def __getitem__(self, grid: Any, *_: Any) -> Callable[..., Any]:
        if is_traced_by_torch():
            return functools.partial(self.run, grid=grid)
        kernel = self.fn
        # A kernel with a `run` of its own must be called through Python.
        plain = getattr(type(kernel), "run", None) is JITFunction.run and "run" not in vars(kernel)
        if not plain or kernel.pre_run_hooks:
            return functools.partial(self.run, grid=grid)
        return (self._native or self._make_native()).at(grid)


def _check_kernel(what: str, fn: Any) -> None:
    if not hasattr(fn, "arg_names"):
        got = f"{fn.__name__}, a Python function" if hasattr(fn, "__name__") else f"a value of type {type(fn).__name__}"
        raise errors.UsageError(f"{what}: expected a jit function, got {got}", f"put @kiln.jit below @kiln.{what}")


def _names(fn: Any, what: str, given: Iterable[str] | None) -> list[str]:
    if isinstance(given, str):
        raise errors.UsageError(
            f"autotune of {_base(fn).__name__}: expected {what} to be a list of names, got {given!r}",
            hint=f"write {what}=[{given!r}]",
        )
    return list(given or ())


def _no_parameter(what: str, fn: Any, name: str) -> errors.UsageError:
    near = errors.near_match(name, fn.arg_names)
    return errors.UsageError(
        f"{what} of {_base(fn).__name__}: expected the name of a parameter, got {name!r}",
        hint=f"did you mean {near!r}?" if near else f"the parameters are {', '.join(fn.arg_names)}",
    )


def _chain(fn: Any) -> Iterator[Any]:
    """A decorated kernel and everything its decorators wrap, down to the jit function."""
    yield fn
    while isinstance(fn, KernelInterface) and not isinstance(fn, JITFunction):  # includes decorators of other libraries
        fn = fn.fn
        yield fn


def _base(fn: Any) -> Any:
    return list(_chain(fn))[-1]


def autotune(
    configs: Iterable[Config],
    key: Iterable[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Iterable[str] | None = None,
    restore_value: Iterable[str] | None = None,
    pre_hook: Hook | None = None,
    post_hook: Hook | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool | None = None,
    *,
    isolate: bool = False,
    timeout: float = 10.0,
    same_numerics: bool = False,
    tuned: str | os.PathLike[str] | None = None,
) -> Callable[[Any], Autotuner]:
    """Measures `configs` when the values of the `key` arguments (or an array's type) are new, and keeps the best.

    All configurations are compiled in parallel. Those that do not fit the machine are dropped, and so are those that
    spill, unless all do. The others race: they are launched in turn until one is clearly the fastest. Ctrl-C takes the
    best so far. KILN_LOG=info,autotune logs the time of each.

    prune_configs_by   {"early_config_prune": f(configs, arguments, **kwargs) -> configs,
                        "perf_model": f(**arguments) -> expected time, "top_k": how many (or which share) to measure}
    reset_to_zero      arrays to set to zero before each measured launch
    restore_value      arrays to restore after each measured launch
    pre_hook           f(arguments, reset_only=False), before each measured launch
    post_hook          f(arguments, exception=…), after each
    warmup             milliseconds of launches before a configuration's first measured one (default: two launches)
    rep                the most milliseconds of launches for each configuration, on average (default: 100)
    use_cuda_graph     raises an error where graphs cannot be captured. On a GPU, graphs are replayed anyway if torch is
                       imported and nothing has to happen before each launch: this excludes the host's time
    do_bench           f(launch, quantiles=…), measures one configuration after the other instead of racing them
    cache_results      whether to store each configuration's time for other processes; the default is yes, unless
                       `do_bench` measures
    isolate            launch in another process, so that a configuration that hangs, faults or runs out of memory does
                       no harm. Hooks are called once for each configuration, in this process
    timeout            with `isolate`, the seconds after which a launch counts as hung
    same_numerics      choose only among configurations whose results are bitwise those of the first one
    tuned              a file that `kiln tune` wrote: a key in it takes its configuration; any other key takes that of
                       the nearest key or, with `perf_model`, the best of the file. Nothing is measured then

    >>> @kiln.autotune(configs=[kiln.Config({"BLOCK": 128}), kiln.Config({"BLOCK": 1024})], key=["n"])
    ... @kiln.jit
    ... def scale(x, n, BLOCK: kl.constexpr):
    ...     ...
    """

    def decorate(fn: Any) -> Autotuner:
        _check_kernel("autotune", fn)
        return Autotuner(
            fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by,
            warmup, rep, use_cuda_graph, do_bench, cache_results, isolate, timeout, same_numerics, tuned,
        )  # fmt: skip

    return decorate


class Heuristics(_Decorated):
    """A kernel some of whose meta-parameters are computed from its arguments. Made by `kiln.heuristics`."""

    def __init__(self, fn: Any, arg_names: list[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]):
        super().__init__(fn, arg_names)
        self.values = dict(values)
        # The arguments that an inner tuner passes to the grid's function; torch's compiler would treat a function in
        # `fn` as a method.
        inner = next((f for f in _chain(fn) if isinstance(f, Autotuner)), None)
        self.metas = [config.all_kwargs() for config in inner.configs] if inner is not None else [{}]
        for name in self.values:
            if name not in self.arg_names and name not in LAUNCH_OPTIONS:
                raise _no_parameter("heuristics", fn, name)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        for name, rule in self.values.items():
            arguments = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
            try:
                kwargs[name] = rule(arguments)
            except KeyError as error:
                self._explain_key(name, error, arguments)
                raise
        if is_traced_by_torch():
            from kiln.runtime import torch_graph

            return torch_graph.launch(self, grid, args, kwargs)
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)

    def prepare(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        for name, rule in self.values.items():
            kwargs[name] = rule({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.prepare(*args, grid=grid, **kwargs)

    prepare.__doc__ = KernelInterface.prepare.__doc__

    def _explain_key(self, name: str, error: KeyError, arguments: dict[str, Any]) -> None:
        """Explains that a rule asked for a missing argument; returns if its KeyError is about something else."""
        asked = error.args[0] if error.args else None
        if not isinstance(asked, str) or asked in arguments:
            return
        near = errors.near_match(asked, arguments)
        raise errors.LaunchError(
            f"expected the heuristic for {name!r} to read arguments of this launch, got {asked!r}",
            kernel=_base(self.fn).__name__,
            hint=f"did you mean {near!r}?" if near else f"the arguments are {', '.join(map(repr, arguments))}",
        ) from error


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Computes meta-parameters, and launch options such as `num_warps`, at each launch.

    `values` maps a name to a function of the dictionary of arguments.

    >>> @kiln.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    ... @kiln.jit
    ... def scale(x, n, BLOCK: kl.constexpr, EVEN: kl.constexpr):
    ...     ...
    """

    def decorate(fn: Any) -> Heuristics:
        _check_kernel("heuristics", fn)
        return Heuristics(fn, fn.arg_names, values)

    return decorate

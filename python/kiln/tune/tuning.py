"""One tuning: from a kernel's configurations and the arguments of one launch to the configuration that is fastest.

    prune (the user's rules) → times of before → misfits → compile, in parallel → spills → race → keep the times

On a GPU, configurations race as soon as they are compiled, while others are still compiling: graphs are replayed
without the host. Later ones race against those still unbeaten.

A race is short, and the GPU is cool at its start. If launches are long enough for the power limit to matter, the few
that end near the best run in finals: they take turns in bursts, of which only the end counts, after the clocks have
settled. Their times are those of the finals; the times of the others are scaled accordingly.

`Autotuner` makes a `Tuning` for each new key. Everything here happens once for a key, never on the launch path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln import errors, knobs
from kiln.runtime import placement
from kiln.tune import clock, compiling, table
from kiln.tune.arguments import copy_of, fill, is_array, leaves, named
from kiln.tune.configs import Config
from kiln.tune.progress import Progress
from kiln.tune.race import Disqualified, Outcome, Rules, quantiles, race
from kiln.tune.store import Time, TimeStore, default_store, device_identity, signature

log = logging.getLogger("kiln.autotune")

NEVER = [math.inf] * 3
# Default milliseconds of samples for each configuration; most need far fewer.
REP_MS = 100.0
# Rounds of a race during compiles, as many as two contestants need: those far slower are out, the others run again.
HEAT_ROUNDS = 12
# Only those slower than the leader by this factor are out then: the compiling host starts some samples late.
HEAT_MARGIN = 1.2
# The finals: the margin for taking part, the most finalists, the bursts of each, and seconds after which none start.
FINAL_MARGIN, FINALISTS, FINAL_ROUNDS, FINAL_SECONDS = 1.12, 4, 2, 0.25
# Shorter launches (in milliseconds) are limited by the host, by memory and by each other, not by power.
FINAL_LEAST_MS = 0.05


class LeftOut(errors.KilnError):
    """The reason for which the tuner rejects a valid configuration."""


class Tuning:
    """One tuning: the measurements of a tuner's `configs` for one launch.

    measured   milliseconds by configuration (median, 20 and 80 percent); infinite for one that is not in
    refused    why a configuration is not in
    """

    def __init__(self, tuner: Any, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any):
        self.tuner, self.key, self.args, self.kwargs, self.grid = tuner, key, args, kwargs, grid
        self.name = tuner.base_fn.__name__
        self.arguments = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
        self.device = placement.device_of_arguments(leaves(self.arguments.values()))
        self.row = placement.choose_target(self.device)
        self.configs: list[Config] = []
        self.measured: dict[Config, list[float]] = {}
        self.refused: dict[Config, Exception] = {}
        self.lasting: dict[Config, BaseException] = {}  # those of them that would be refused the next time too
        self.codes: dict[Config, Any] = {}
        self.samples = 0
        self.interrupted = False
        self._times: TimeStore | None = None
        self._kept: dict[Config, Time] = {}
        self._saved: dict[str, Any] = {}
        self._rotated: list[clock.Rotation | None] = []

    def run(self) -> Config:
        """The fastest configuration."""
        tuner = self.tuner
        self.configs = list(dict.fromkeys(tuner.prune_configs(self.arguments, self.kwargs)))
        for config in self.configs:
            tuner.check_conflicts(config, self.kwargs)
        for what in ("reset_to_zero", "restore_value"):
            for name in getattr(tuner, what):
                self._check_array(what, name)
        knobs.start_logging()
        if tuner.same_numerics:
            with Progress(self.name) as progress:
                self.configs = self._drop_other_numerics(progress)
        if tuner.tuned is not None:
            best = self._choose_from(tuner.tuned)
            if best is not None:
                return best
        kept = self._without_left_out(self._look_up())
        best = self._best(kept)
        if best is not None and not self._is_current(best, kept[best]):
            log.info("%s %s: times of before are of other code", self.name, self.key)
            with Progress(self.name) as progress:
                kept = self._without_left_out(self._look_up_exactly(self._compile(self.configs, progress)))
            best = self._best(kept)
        if best is not None and all(config in kept or config in self.refused for config in self.configs):
            self.measured = {config: kept[config].milliseconds if config in kept else NEVER for config in self.configs}
            return best
        start = time.perf_counter()
        self._kept = kept
        new = [config for config in self.configs if config not in kept and config not in self.refused]
        with Progress(self.name) as progress:
            if self._can_overlap(new):
                taken = self._compile_and_race(new, progress)
            else:
                taken = self._measure(self._compile(new, progress), progress)
        tuner.bench_time = time.perf_counter() - start
        if not self.interrupted:
            self._keep(taken)
        taken.update({config: time.milliseconds for config, time in kept.items()})
        self.measured = {config: taken.get(config, NEVER) for config in [*self.configs, *self.refused]}
        for config in self.configs:
            if config in taken and config in new:
                log.info("%s %s: %s takes %.4f ms", self.name, self.key, config, taken[config][0])
        if not taken:
            self._raise_none_fits()
        best = min(taken, key=lambda config: taken[config][0])
        log.info("%s %s: best of %d is %s (%.4f ms)", self.name, self.key, len(self.configs), best, taken[best][0])
        return best

    def _check_array(self, what: str, name: str) -> None:
        given = named(self.arguments, name) if name.partition(".")[0] in self.arguments else None
        if not is_array(given):
            raise errors.LaunchError(
                f"expected an array for {name!r} (because {what} names it), got {given!r}", kernel=self.name
            )

    # -- times of before -------------------------------------------------------------------

    def _look_up(self) -> dict[Config, Time]:
        if not self.tuner.keeps_times:
            return {}
        self._times = TimeStore(default_store(), self.name, self._about())
        found = {config: self._times.get(config) for config in self.configs}
        return {config: time for config, time in found.items() if time is not None}

    def _without_left_out(self, kept: dict[Config, Time]) -> dict[Config, Time]:
        """The configurations with a stored time; those without are not tried again, unless none has a time."""
        timed = {config: known for config, known in kept.items() if not known.left_out}
        if len(timed) + len(self.configs) > len(kept):
            for config, known in kept.items():
                if known.left_out:
                    self._refuse(config, LeftOut(known.left_out))
        return timed

    def _look_up_exactly(self, configs: Sequence[Config]) -> dict[Config, Time]:
        """Looks up times by the actual code."""
        assert self._times is not None
        self._times.exact = True
        found = {config: self._times.get(config, self.codes[config].cache_key) for config in configs}
        return {config: time for config, time in found.items() if time is not None}

    def _about(self) -> dict[str, Any]:
        """Everything that a time depends on besides the configuration."""
        from kiln import _kiln

        return {
            "kernel": self.tuner.base_fn.__qualname__,
            "source": self.source(),
            "key": [str(value) for value in self.key],
            "arguments": signature(self.arguments.items()),
            "device": self.device_facts(),
            "target": _kiln.digest(json.dumps(_kiln.target(self.row), sort_keys=True).encode()),
            "toolchain": _kiln.toolchain(),
            "method": self.tuner.method,
        }

    def source(self) -> str:
        """A digest of the kernel's text, of all that it reaches, and of the switches that its code depends on."""
        from kiln import _kiln

        return _kiln.digest(self.tuner.base_fn._make_prefix().encode())

    def device_facts(self) -> dict[str, Any]:
        """The machine that the times belong to."""
        if self.device == -2:
            return {"name": "none"}
        return device_identity(self.device, knobs.num_threads if self.device == -1 else 0)

    def key_facts(self) -> dict[str, Any]:
        """The parts of the tuner's key: its values by name, and the types of the arrays."""
        facts: dict[str, Any] = {}
        for name in self.tuner.keys:
            value = named(self.arguments, name)
            facts[name] = value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
        kinds = [str(value.dtype).rpartition(".")[2] for value in leaves(self.arguments.values())
                 if hasattr(value, "dtype")]  # fmt: skip
        return {**facts, "types": " ".join(kinds)}

    def _choose_from(self, path: str) -> Config | None:
        """The choice for this key in a file of `kiln tune`; None if it has none for this kernel on this machine."""
        choices = table.read(path).of(self.tuner.base_fn.__qualname__, self.device_facts(), self.source())
        model = self.tuner.perf_model
        expected = None
        if model is not None:
            expected = lambda config: model(**{**self.arguments, **config.all_kwargs()})  # noqa: E731
        best = table.find(choices, self.key_facts(), self.configs, expected) if choices else None
        if best is not None:
            log.info("%s %s: %s has %s", self.name, self.key, path, best)
        return best

    def _best(self, kept: Mapping[Config, Time]) -> Config | None:
        return min(kept, key=lambda config: kept[config].milliseconds[0], default=None)

    def _is_current(self, config: Config, kept: Time) -> bool:
        """Whether the code that was timed is the code that would run. The launch that follows needs it anyway."""
        try:
            return self._compile_one(config).cache_key == kept.artifact
        except compiling.REFUSALS:
            return False

    def _keep(self, taken: Mapping[Config, list[float]]) -> None:
        if self._times is None:
            return
        for config, milliseconds in taken.items():
            self._times.put(config, Time(milliseconds, self.codes[config].cache_key))
        for config, problem in self.lasting.items():
            code = self.codes.get(config)
            if code is not None or not self._times.exact:
                why = (str(problem).splitlines() or [type(problem).__name__])[0]
                self._times.put(config, Time([], code.cache_key if code is not None else "", why))

    # -- code ------------------------------------------------------------------------------

    def _compile_one(self, config: Config) -> Any:
        if config not in self.codes:
            self._run_pre_hook(config)  # it may set what the code depends on, such as the block of a descriptor
            meta = {**config.all_kwargs(), **self.kwargs}
            self.codes[config] = self.tuner.fn.run(*self.args, grid=self.grid, warmup=True, **meta)
        return self.codes[config]

    def _leave_out_misfits(self, configs: Sequence[Config]) -> list[Config]:
        """The configurations that may fit; the misfits go to `refused`."""
        fitting = []
        for config in configs:
            misfit = compiling.find_misfit(config, self.kwargs, self.row)
            if misfit:
                self._refuse(config, LeftOut(misfit))
            else:
                fitting.append(config)
        return fitting

    def _can_thread(self, configs: Sequence[Config]) -> bool:
        """Whether configurations may be compiled by several threads."""
        from kiln import hooks

        # Hooks must run on the launching thread; those of configurations may change arguments.
        told = any((hooks.compile_start, hooks.compile_end, hooks.load_start, hooks.load_end))
        return not told and not any(config.pre_hook is not None for config in configs)

    def _compile(self, configs: Sequence[Config], progress: Progress) -> list[Config]:
        """Compiles configurations and returns those that fit; the others are in `refused`."""
        asked = self._leave_out_misfits(configs)
        codes, refused = compiling.compile_all(
            asked, self._compile_one, lambda done: progress.compiling(done, len(asked)),
            None if self._can_thread(asked) else 1,
        )  # fmt: skip
        self._refuse_for_good(refused)
        for config in compiling.spilled(codes):
            self._leave_out_spilled(config)
            del codes[config]
        return list(codes)

    def _refuse_for_good(self, refused: Mapping[Config, Exception]) -> None:
        for config, problem in refused.items():
            self._refuse(config, problem)
            self.lasting[config] = problem

    def _leave_out_spilled(self, config: Config) -> None:
        """Drops configurations that spill, unless all do."""
        words = compiling.words_spilled(self.codes[config])
        self._refuse(config, LeftOut(f"a thread spills {words} words of registers"))

    def _drop_other_numerics(self, progress: Progress) -> list[Config]:
        """The configurations that give the bits of the first one that the tuner has."""
        from kiln.tune.numerics import difference, signature_of

        default = self.tuner.configs[0]
        try:
            wanted = signature_of(self._compile_one(default))
        except compiling.REFUSALS as problem:
            error = errors.LaunchError(
                f"expected the first configuration to compile (because same_numerics keeps those that give its bits): "
                f"{default}",
                kernel=self.name,
            )
            error.details = str(problem)
            raise error from problem
        if not wanted.has_order:
            log.warning("%s: the first configuration adds floats in memory, in no order: no two launches of it need "
                        "give the same bits", self.name)  # fmt: skip
        found = []
        for config in self._compile(self.configs, progress):
            why = difference(wanted, signature_of(self.codes[config]))
            if why:
                self._refuse(config, LeftOut(why))
            else:
                found.append(config)
        return found

    def _refuse(self, config: Config, problem: Exception) -> None:
        self.refused[config] = problem
        log.info("%s: %s is left out: %s", self.name, config, problem)

    def _raise_none_fits(self) -> None:
        config, problem = next(iter(self.refused.items()))
        error = errors.LaunchError(
            f"expected a configuration that compiles and fits, got none of {len(self.configs)} (the first is {config})",
            kernel=self.name,
        )
        error.details = str(problem)
        raise error from problem

    # -- measuring -------------------------------------------------------------------------

    def _measure(self, configs: Sequence[Config], progress: Progress) -> dict[Config, list[float]]:
        """Milliseconds of each configuration that can be launched."""
        if not configs:
            return {}
        self._saved = {name: copy_of(named(self.arguments, name)) for name in self.tuner.restore_value}
        try:
            if self.tuner.user_do_bench is not None:
                return self._measure_by(self.tuner.user_do_bench, configs)
            return self._race(configs, progress)
        finally:
            self._prepare()

    def _measure_by(self, do_bench: Callable[..., Any], configs: Sequence[Config]) -> dict[Config, list[float]]:
        """By the user's own function, one after the other."""
        taken: dict[Config, list[float]] = {}
        for config in configs:
            launch = self._launcher(config)
            try:
                times = self._milliseconds(do_bench(launch, quantiles=(0.5, 0.2, 0.8)))
                if any(map(math.isnan, times)):
                    self._refuse(config, LeftOut("do_bench gave nan for its time"))
                else:
                    taken[config] = times
            except compiling.REFUSALS as problem:
                self._refuse(config, problem)
            except KeyboardInterrupt:
                if not taken:
                    raise
                self.interrupted = True
                log.warning("%s: interrupted; the best of %d of %d is used", self.name, len(taken), len(configs))
                break
        return taken

    def _milliseconds(self, found: Any) -> list[float]:
        """The result of the user's function as milliseconds: one time, or several quantiles."""
        try:
            times = [float(ms) for ms in (found if isinstance(found, (list, tuple)) else [found])]
        except (TypeError, ValueError):
            times = []
        if not times:
            raise errors.LaunchError(
                f"expected do_bench to return milliseconds, or a list of them, got {found!r}", kernel=self.name
            )
        return times

    def _can_overlap(self, configs: Sequence[Config]) -> bool:
        """Whether compiles do not disturb samples, and nothing has to happen between launches."""
        tuner = self.tuner
        plain = not (tuner.isolate or tuner.user_do_bench or tuner.user_pre_hook or tuner.user_post_hook
                     or tuner.reset_to_zero or tuner.restore_value)  # fmt: skip
        few = len(configs) < 2 or compiling.processors() < 2
        return self.device >= 0 and plain and not few and self._can_thread(configs) and self._rotation() is not None

    def _compile_and_race(self, configs: Sequence[Config], progress: Progress) -> dict[Config, list[float]]:
        """Does the work of `_compile` and `_race` concurrently."""
        asked = self._leave_out_misfits(configs)
        taken: dict[Config, list[float]] = {}
        front: list[Config] = []  # contestants that are not beaten, the leader first
        alike: dict[Config, Config] = {}  # contestants so far, and those with the same code
        spilling: list[Config] = []
        samplers: dict[Config, Callable[[], float]] = {}

        def enter(new: Sequence[Config]) -> None:
            codes = {config: self.codes[config] for config in [*alike, *new]}
            alike.update(compiling.same_code(codes, self.tuner.arg_names))
            runners = [config for config in new if alike[config] is config]
            samplers.update(self._samplers(runners))
            run([*front, *runners], heat=True)

        def run(runners: Sequence[Config], heat: bool) -> None:
            nonlocal front
            if runners:
                found, front = self._race_of(runners, samplers, progress, heat)
                self._join_times(taken, found)

        watch = lambda done: progress.compiling(done, len(asked))  # noqa: E731
        try:
            with compiling.Compiles(asked, self._compile_one, watch=watch) as compiles:
                while not self.interrupted and (ended := compiles.take()):
                    codes = {config: compiles.codes[config] for config in ended if config in compiles.codes}
                    self._refuse_for_good({config: compiles.refused[config] for config in ended if config not in codes})
                    spilled = [config for config in codes if compiling.words_spilled(codes[config])]
                    spilling += spilled
                    enter([config for config in codes if config not in spilled])
        except KeyboardInterrupt:
            if not taken:
                raise
            self.interrupted = True
            log.warning("%s: interrupted; the best so far is used: %s", self.name, front[0])
        if alike:
            for config in spilling:
                self._leave_out_spilled(config)
        elif spilling:
            enter(spilling)
        if len(front) > 1 and not self.interrupted:
            run(front, heat=False)
        self._run_finals(taken, samplers, progress)
        return {config: taken[alike[config]] for config in configs if alike.get(config) in taken}

    @staticmethod
    def _join_times(taken: dict[Config, list[float]], found: Mapping[Config, list[float]]) -> None:
        """Adds the times of a race to those of earlier races, which are scaled to this one, as the machine's clocks may
        have changed. The earlier leader is in both."""
        both = [config for config in found if config in taken]
        if both:
            leader = min(both, key=lambda config: taken[config][0])
            pace = found[leader][0] / taken[leader][0]
            for times in taken.values():
                times[:] = [pace * each for each in times]
        taken.update(found)

    def _race(self, configs: Sequence[Config], progress: Progress) -> dict[Config, list[float]]:
        alike = compiling.same_code({config: self.codes[config] for config in configs}, self.tuner.arg_names)
        runners = [config for config in configs if alike[config] is config]
        with contextlib.ExitStack() as held:
            samplers = self._isolated(runners, held) if self.tuner.isolate else self._samplers(runners)
            taken, _ = self._race_of(runners, samplers, progress)
            self._run_finals(taken, samplers, progress)
        return {config: taken[alike[config]] for config in configs if alike[config] in taken}

    def _race_of(
        self,
        runners: Sequence[Config],
        samplers: Mapping[Config, Callable[[], float]],
        progress: Progress,
        heat: bool = False,
        rules: Rules | None = None,
    ) -> tuple[dict[Config, list[float]], list[Config]]:
        """Times, and the contestants that were never out, the winner first."""
        rep = REP_MS if self.tuner.rep_ms is None else self.tuner.rep_ms
        start = time.perf_counter()

        def watch(outcome: Outcome[Config]) -> None:
            if outcome.winner is not None:
                left = sum(not standing.out for standing in outcome.standings.values())
                best = outcome.standings[outcome.winner]
                progress.racing(outcome.rounds, left, len(runners), best.name, best.time)

        rules = rules or Rules(seconds=rep * len(runners) / 1e3)
        if heat:
            rules = dataclasses.replace(rules, rounds=HEAT_ROUNDS, margin=HEAT_MARGIN)
        outcome = race({config: samplers[config] for config in runners}, rules, watch,
                       lambda: time.perf_counter() - start)  # fmt: skip
        self.samples += outcome.count
        for config, standing in outcome.standings.items():
            if standing.problem is not None:
                self._refuse(config, standing.problem.__cause__ or standing.problem)  # type: ignore[arg-type]
                # Out of memory may not happen again the next time.
                if self.tuner.isolate and "out of memory" not in str(standing.problem):
                    self.lasting[config] = standing.problem
            else:
                log.debug("%s: %s: %d samples, %s", self.name, config, len(standing.samples),
                          f"out in round {standing.out}" if standing.out else "in to the end")  # fmt: skip
        if outcome.why == "interrupted":
            self.interrupted = True
            log.warning("%s: interrupted; the best so far is used: %s", self.name, outcome.winner)
        taken = {
            config: quantiles(standing.samples, (0.5, 0.2, 0.8))
            for config, standing in outcome.standings.items()
            if standing.samples and standing.problem is None
        }
        front = sorted((config for config in taken if not outcome.standings[config].out),
                       key=lambda config: config is not outcome.winner)  # fmt: skip
        return taken, front

    def _run_finals(
        self,
        taken: dict[Config, list[float]],
        samplers: Mapping[Config, Callable[[], float]],
        progress: Progress,
    ) -> None:
        """Puts the times of the finals into `taken`. Even a single finalist runs: its time is stored, and compared with
        those of later finals."""
        best = min([times[0] for times in taken.values()] + [kept.milliseconds[0] for kept in self._kept.values()],
                   default=math.inf)  # fmt: skip
        if self.interrupted or not FINAL_LEAST_MS <= best <= clock.SUSTAINED_MS:
            return
        near = [config for config in sorted(taken, key=lambda config: taken[config][0])
                if taken[config][0] <= FINAL_MARGIN * best][:FINALISTS]  # fmt: skip
        bursts = {config: getattr(samplers[config], "sustained", None) for config in near}
        if not bursts or None in bursts.values():
            return
        rep = REP_MS if self.tuner.rep_ms is None else self.tuner.rep_ms
        rules = Rules(rounds=FINAL_ROUNDS, least=1, seconds=min(FINAL_SECONDS, rep * len(near) / 1e3))
        try:
            with contextlib.suppress(Disqualified):  # decided again by the finals
                bursts[near[0]]()  # type: ignore[misc] # heats the GPU: a cool one may exceed its power limit
            found, _ = self._race_of(near, bursts, progress, rules=rules)  # type: ignore[arg-type]
        except KeyboardInterrupt:
            self.interrupted = True
            log.warning("%s: interrupted; the best of the race is used: %s", self.name, near[0])
            return
        for config in near:
            if config not in found:
                del taken[config]
        self._join_times(taken, found)

    def _samplers(self, configs: Sequence[Config]) -> dict[Config, Callable[[], float]]:
        warmup = self.tuner.warmup_ms or 0.0
        rotation = self._rotation()

        def make(config: Config) -> Callable[[], float]:
            before, after = self._before(config), self._after()
            if self.device == -1:
                return clock.WallClock(self._bare(config, self.args, self.kwargs), before, after, warmup)
            if rotation is None or before is not None or after is not None:
                return clock.EventClock(self._bare(config, self.args, self.kwargs), before, after, warmup)
            self._run_pre_hook(config)
            sets = rotation.sets([*self.args, *self.kwargs.values()])
            places = len(self.args)
            launches = [
                self._bare(config, tuple(values[:places]), dict(zip(self.kwargs, values[places:], strict=True)))
                for values in sets
            ]
            return clock.GraphClock(launches, warmup=warmup)

        return {config: self._guarded(make, config) for config in configs}

    def _isolated(self, configs: Sequence[Config], held: contextlib.ExitStack) -> dict[Config, Callable[[], float]]:
        """Samplers in another process. Hooks run here, once for each configuration, before arguments are sent."""
        from kiln.tune import isolate

        tuner, sender = self.tuner, isolate.Sender(self.name)
        held.callback(sender.close)
        jobs = {}
        for config in configs:
            self._run_pre_hook(config)
            if tuner.user_pre_hook is not None:
                tuner.user_pre_hook({**self.arguments, **config.all_kwargs()}, reset_only=False)
            bound = isolate.bind(tuner.fn, self.args, {**config.all_kwargs(), **self.kwargs})
            jobs[config] = isolate.make_job(
                self.codes[config], self.grid, bound, sender, reset_to_zero=tuple(tuner.reset_to_zero),
                restore_value=tuple(tuner.restore_value), warmup=tuner.warmup_ms or 0.0,
            )  # fmt: skip
        isolation = held.enter_context(isolate.Isolation(jobs, sender, tuner.timeout))
        return {config: isolation.contestant(config) for config in configs}

    def _guarded(self, make: Callable[[Config], Callable[[], float]], config: Config) -> Callable[[], float]:
        return _Guarded(lambda: make(config))

    def _rotation(self) -> clock.Rotation | None:
        """Copies of the arrays for graphs of launches; None where launches cannot be captured."""
        if not self._rotated:
            self._rotated.append(self._rotate())
        return self._rotated[0]

    def _rotate(self) -> clock.Rotation | None:
        torch = sys.modules.get("torch")
        values = [*self.args, *self.kwargs.values()]
        if self.device < 0 or torch is None or not torch.cuda.is_initialized() or clock.copies_arrays(values):
            if self.tuner.use_cuda_graph and self.device >= 0:
                raise errors.LaunchError(
                    "expected torch to be imported (because it captures the graph that use_cuda_graph asks for)",
                    kernel=self.name,
                )
            return None
        from kiln import cuda

        l2_bytes = cuda.get_device_properties(self.device).l2_bytes
        return clock.Rotation(values, l2_bytes, torch)

    # -- one launch ------------------------------------------------------------------------

    def _bare(self, config: Config, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        run, grid, meta = self.tuner.fn.run, self.grid, {**config.all_kwargs(), **kwargs}
        post_hook, arguments = self.tuner.user_post_hook, self.arguments

        def launch() -> None:
            try:
                run(*args, grid=grid, **meta)
            except Exception as error:
                if post_hook is not None:
                    post_hook(arguments, exception=error)
                raise

        return launch

    def _before(self, config: Config) -> Callable[[], None] | None:
        """A function to call before each measured launch; None if nothing has to be done."""
        tuner = self.tuner
        if not (tuner.user_pre_hook or tuner.reset_to_zero or self._saved or (self.device == -1 and config.pre_hook)):
            return None

        def before() -> None:
            self._run_pre_hook(config)
            self._prepare()
            if tuner.user_pre_hook is not None:
                tuner.user_pre_hook({**self.arguments, **config.all_kwargs()}, reset_only=False)

        return before

    def _after(self) -> Callable[[], None] | None:
        hook = self.tuner.user_post_hook
        return None if hook is None else lambda: hook(self.arguments, exception=None)

    def _launcher(self, config: Config) -> Callable[[], None]:
        """A launch with all that belongs to it."""
        bare, before, after = self._bare(config, self.args, self.kwargs), self._before(config), self._after()

        def launch() -> None:
            if before is not None:
                before()
            elif config.pre_hook is not None:
                self._run_pre_hook(config)
            bare()
            if after is not None:
                after()

        return launch

    def _run_pre_hook(self, config: Config) -> None:
        if config.pre_hook is not None:
            config.pre_hook({**self.arguments, **config.all_kwargs()})

    def _prepare(self) -> None:
        for name in self.tuner.reset_to_zero:
            fill(named(self.arguments, name), 0)
        for name, value in self._saved.items():
            fill(named(self.arguments, name), value)


class _Guarded:
    """A sampler that leaves the race if its configuration does not fit; created at its first sample."""

    def __init__(self, make: Callable[[], Callable[[], float]]):
        self.make = make
        self.sampler: Callable[[], float] | None = None

    def __call__(self) -> float:
        try:
            if self.sampler is None:
                self.sampler = self.make()
            return self.sampler()
        except compiling.REFUSALS as problem:
            raise Disqualified(str(problem)) from problem

    @property
    def sustained(self) -> Callable[[], float] | None:
        """A sample of a burst, which only some clocks take; known from the first sample on."""
        burst = getattr(self.sampler, "sustained", None)
        if burst is None:
            return None

        def sample() -> float:
            try:
                return float(burst())
            except compiling.REFUSALS as problem:
                raise Disqualified(str(problem)) from problem

        return sample

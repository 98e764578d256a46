"""Measures one row: makes the sets, builds and checks every peer, finds the ceiling, races, returns plain data."""

from __future__ import annotations

import dataclasses
import functools
import gc
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import measure
from cases import Arrays, Case, Peer, Unavailable, family, with_variants
from device import Maker
from tools import Tools


@dataclass(frozen=True)
class Settings:
    """What the command line chooses."""

    peers: tuple[str, ...]
    rounds: int = 9
    warm: bool = True
    search: str = "full"  # the ceiling search: "full" or "quick"
    most_sets: int = measure.MOST_SETS


class Wrong(Exception):
    """A peer's outputs are further from the exact ones than allowed."""


def relative_error(torch: Any, outs: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest ‖out − exact‖ / ‖exact‖ over the outputs; infinite for NaN or a wrong shape."""
    if len(outs) != len(exact):
        return math.inf
    worst = 0.0
    for out, wanted in zip(outs, exact, strict=True):
        if tuple(out.shape) != tuple(wanted.shape):
            return math.inf
        error = float(torch.linalg.vector_norm(out.double() - wanted) / torch.linalg.vector_norm(wanted))
        if math.isnan(error):
            return math.inf
        worst = max(worst, error)
    return worst


class Runner:
    """Everything one row needs while it is measured."""

    def __init__(self, case: Case, device: Any, settings: Settings, say: Callable[[str], None]):
        self.case, self.device, self.settings, self.say = case, device, settings, say
        self.torch = device.torch
        self.family = family(case.family)
        self.tools = Tools(device)
        self.plan = self.make_plan()
        arenas = self.family.inputs(case, self.maker())
        self.sets: list[Arrays] = [
            {name: arena[i] for name, arena in arenas.items()} | {"set": i} for i in range(self.plan.sets)
        ]
        self.mutates: tuple[str, ...] = getattr(self.family, "MUTATES", ())
        # For in-place operations only set 0 is checked, by its first launch: peers count steps.
        self.checked = (0,) if self.mutates else (0, self.plan.sets - 1)
        self.pristine = {name: self.sets[0][name].clone() for name in self.mutates}
        self.error_of_torch: float | None = None
        self.peers: dict[str, dict[str, Any]] = {}
        self._held: list[Any] = []  # memory that graphs use until the row is done

    def make_plan(self) -> measure.Plan:
        device = self.device
        return measure.plan(self.case.footprint, self.case.traffic, device.l2_bytes, self.settings.rounds,
                            device.graph_us, device.burst_us, self.settings.most_sets)  # fmt: skip

    def maker(self) -> Any:
        """What makes the inputs."""
        return Maker(self.device, self.plan.sets, self.case.dtype)

    @functools.cached_property
    def exact(self) -> dict[int, tuple[Any, ...]]:
        """float64 outputs of the checked sets; for in-place operations, from the state before the first launch."""
        self.restore()
        return {i: self.family.reference(self.case, self.sets[i]) for i in self.checked}

    # -- outputs ----------------------------------------------------------------------------

    def outputs(self, peer: Peer) -> list[Any] | None:
        """Every set's outputs, if the peer takes them: slices of one array each, filled with NaN."""
        if not peer.takes_outputs:
            return None
        arenas = [
            self.torch.full((self.plan.sets, *shape), math.nan, dtype=getattr(self.torch, dtype),
                            device=self.device.device)
            for shape, dtype in self.family.outputs(self.case)
        ]  # fmt: skip
        return [tuple(arena[i] for arena in arenas) for i in range(self.plan.sets)]

    def restore(self) -> None:
        for name, values in self.pristine.items():
            self.sets[0][name].copy_(values)

    # -- checking ---------------------------------------------------------------------------

    def check(self, peer: Peer, outs: list[Any] | None) -> float:
        """Launches on the checked sets; returns the worst error or raises `Wrong`."""
        worst = 0.0
        for i in self.checked:
            self.restore()
            result = peer.launch(self.sets[i], outs[i] if outs else None)
            self.device.synchronize()
            worst = max(worst, relative_error(self.torch, result, self.exact[i]))
        self.judge(worst)
        return worst

    def judge(self, error: float) -> None:
        if self.error_of_torch is None:
            if not math.isfinite(error):
                raise Wrong("torch's own result is not finite")
            return
        allowed = measure.allowed_error(self.error_of_torch, self.case.dtype)
        if not error <= allowed:
            raise Wrong(f"wrong: error {error:.2e}, allowed {allowed:.2e} (torch has {self.error_of_torch:.2e})")

    # -- capturing --------------------------------------------------------------------------

    def capture(self, peer: Peer, outs: list[Any] | None, launches: int, rotate: bool = True, keep: bool = True) -> Any:
        """A graph of launches over the sets, or over set 0, and a function that gives each set's outputs."""
        sets = self.plan.sets if rotate else 1
        alive: deque[tuple[int, Any]] = deque(maxlen=sets)

        def enqueue() -> None:
            for i in range(launches):
                at = i % sets
                alive.append((at, peer.launch(self.sets[at], outs[at] if outs else None)))

        replay = self.device.capture(enqueue)
        if keep:
            self._held.append((replay, alive, peer))  # the peer holds the memory that its launches use
        return replay, lambda: dict(alive)

    def check_replay(self, replay: Callable[[], None], written: Callable[[], dict[int, Any]]) -> None:
        """Checks that a replay writes every set: all are poisoned, and the last is compared.

        In-place operations have been checked by their first launch; a replay must change the last set's arrays and
        leave them finite.
        """
        if self.mutates:
            arrays = self.sets[-1]
            before = {name: arrays[name].clone() for name in self.mutates}
            replay()
            self.device.synchronize()
            if not all(bool(arrays[name].isfinite().all()) for name in before):
                raise Wrong("wrong: a replay leaves numbers that are not finite")
            if any(bool((arrays[name] == old).all()) for name, old in before.items()):
                raise Wrong("wrong: a replay leaves arrays as they were")
            return
        found = written()
        for i in self.poisoned(found):
            for out in found[i]:
                out.fill_(math.nan)
        replay()
        self.device.synchronize()
        last = self.plan.sets - 1
        self.judge(relative_error(self.torch, found[last], self.exact[last]))
        middle = found[last // 2]
        if not all(bool(out.isfinite().all()) for out in middle):
            raise Wrong("wrong: a replay leaves outputs unwritten")

    def poisoned(self, found: dict[int, Any]) -> Iterable[int]:
        """Of the sets that a graph writes, those that a replay has to write again."""
        return found

    # -- one peer ---------------------------------------------------------------------------

    def build(self, name: str, make: Callable[[], Peer], timed: bool = True) -> dict[str, Any]:
        """Imports, compiles, tunes, checks and (if it is to be ``timed``) captures a peer; returns the outcome."""
        self.say(name)
        found: dict[str, Any] = {"peer": name, "status": "ok", "note": ""}
        try:
            peer = make()
            found["note"] = peer.note
            outs = self.outputs(peer)
            if peer.prepare is not None:
                for arrays in self.sets:
                    peer.prepare(arrays)
            peer.launch(self.sets[1], outs[1] if outs else None)  # compiles and tunes
            self.device.synchronize()
            found["error"] = self.check(peer, outs)
            if name == "torch":
                self.error_of_torch = found["error"]
            if not timed:
                return found
            cold, written = self.capture(peer, outs, self.plan.launches)
            self.check_replay(cold, written)
            found["cold"] = self.device.burst(cold, self.plan.launches, self.plan.replays)
            found["replay"] = cold
            if self.settings.warm:
                warm, _ = self.capture(peer, outs, self.plan.warm_launches, rotate=False)
                found["warm"] = self.device.burst(warm, self.plan.warm_launches, 2)
        except Unavailable as error:
            found.update(status="unavailable", note=str(error))
        except Wrong as error:
            found.update(status="wrong", note=str(error))
        except Exception as error:  # any exception is this peer's result; the others go on
            found.update(status="failed", note=f"{type(error).__name__}: {_first_line(error)}")
            self.device.synchronize()  # raises if the device is lost: then the process must go
        return found

    def build_ceiling(self) -> dict[str, Any]:
        self.say("ceiling")
        found: dict[str, Any] = {"peer": "ceiling", "status": "ok", "note": ""}
        try:
            from baselines import ceiling

            peer, outs = ceiling.search(self)
            found["note"], found["error"] = peer.note, 0.0
            cold, _ = self.capture(peer, outs, self.plan.launches)
            found["cold"] = self.device.burst(cold, self.plan.launches, self.plan.replays)
            if self.settings.warm:
                warm, _ = self.capture(peer, outs, self.plan.warm_launches, rotate=False)
                found["warm"] = self.device.burst(warm, self.plan.warm_launches, 2)
        except Unavailable as error:
            found.update(status="unavailable", note=str(error))
        except Exception as error:
            found.update(status="failed", note=f"{type(error).__name__}: {_first_line(error)}")
            self.device.synchronize()
        return found

    def wanted(self) -> dict[str, Callable[[], Peer]]:
        """The peers to build; torch first, because its error is the measure of the others."""
        makers = self.family.peers(self.case, self.tools)
        asked = with_variants(self.settings.peers) | {"torch"}
        return {name: makers[name] for name in ("torch", *(n for n in makers if n != "torch")) if name in asked}

    def race(self, ready: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
        """The cold times of the peers that were built."""
        return measure.race({name: peer["cold"] for name, peer in ready.items()}, self.plan.rounds)

    def run(self) -> dict[str, Any]:
        self.device.synchronize()
        found = {name: self.build(name, make) for name, make in self.wanted().items()}
        if "ceiling" in self.settings.peers:
            found["ceiling"] = self.build_ceiling()
        self.restore()
        self.say("race")
        ready = {name: peer for name, peer in found.items() if peer["status"] == "ok"}
        times = self.race(ready)
        busy = next((peer["replay"] for peer in ready.values() if "replay" in peer), None)
        state = self.device.state(busy)
        warm = {}
        if self.settings.warm:
            bursts = {name: peer["warm"] for name, peer in ready.items()}
            warm = measure.race(bursts, max(3, self.plan.rounds // 2))
        case = {key: value for key, value in dataclasses.asdict(self.case).items() if key != "params"}
        record = {"case": case | {"name": self.case.name}, "plan": dataclasses.asdict(self.plan), "state": state}
        record["allowed_error"] = (
            None if self.error_of_torch is None else measure.allowed_error(self.error_of_torch, self.case.dtype)
        )
        record["peers"] = {name: self._result(peer, times.get(name), warm.get(name)) for name, peer in found.items()}
        return record

    def _result(self, found: dict[str, Any], cold: list[float] | None, warm: list[float] | None) -> dict[str, Any]:
        result = {key: found[key] for key in ("peer", "status", "note", "error") if key in found}
        for mode, times in (("cold", cold), ("warm", warm)):
            if times:
                summary = measure.summarize(times)
                result[mode] = dataclasses.asdict(summary) | {"tbs": self.case.tbs(summary.median)}
        return result


def run_case(case: Case, device: Any, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """One row, with nothing left on the device afterwards."""
    try:
        return Runner(case, device, settings, say).run()
    finally:
        release(device)


def warm_up(case: Case, device: Any, settings: Settings, say: Callable[[str], None]) -> None:
    """Compiles what a row needs into the peers' caches on disk; times nothing, checks nothing."""
    runner = Runner(case, device, dataclasses.replace(settings, most_sets=2), say)
    for name, make in runner.wanted().items():
        if not (name in ("inductor", "quack", "triton") or name.startswith("kiln")):
            continue
        say(name)
        try:
            peer = make()
            outs = runner.outputs(peer)
            if peer.prepare is not None:
                for arrays in runner.sets:
                    peer.prepare(arrays)
            peer.launch(runner.sets[1], outs[1] if outs else None)
            device.synchronize()
        except Exception as error:  # the timed run fails again and reports it
            say(f"{name}: {_first_line(error)}")
    del runner
    release(device)


def release(device: Any) -> None:
    """Gives the memory of a row that is done back to the device."""
    gc.collect()
    if device.name == "cuda":
        device.torch.cuda.empty_cache()


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else repr(error)

"""The ceiling of a row: the fastest kernel that moves the row's bytes in the row's mix, found by search.

Small arrays beside the streams (weights, tables) are also read once. The search covers loads in flight per thread,
threads per block, grids that cover the arrays at once or stay resident, and cache hints. It tries neighbours of the
best, not the whole product: about 20 kernels per row. The best few then race like peers, because in a short burst a
kernel may profit from what the previous one left in the L2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import measure
import numpy as np
from cases import Arrays, Peer, Unavailable

from baselines.cuda_kernels import load

# The hints of `move.cu`: none; reads that leave nothing in L1 and writes that leave the L2 first; reads that the L2
# keeps.
HINTS = ("none", "streaming", "kept reads")


@dataclass(frozen=True)
class Config:
    """``resident``: blocks per multiprocessor that walk the arrays; 0: enough blocks to cover them at once. ``hint``:
    the cache hint (`HINTS`)."""

    unroll: int = 4
    threads: int = 256
    resident: int = 0
    hint: str = "none"

    def grid(self, vectors: int, multiprocessors: int) -> int:
        cover = -(-vectors // (self.threads * self.unroll))
        return min(cover, self.resident * multiprocessors) if self.resident else cover

    def __str__(self) -> str:
        grid = f"{self.resident} blocks/SM" if self.resident else "one pass"
        return f"{self.unroll} loads × {self.threads} threads, {grid}{'' if self.hint == 'none' else ', ' + self.hint}"


def first_round(search: str, reads: int) -> list[Config]:
    if search == "quick":
        configs = [Config(unroll, threads) for unroll, threads in ((1, 512), (2, 256), (4, 128), (4, 512))]
    else:
        configs = [Config(unroll, threads) for unroll in (1, 2, 4) for threads in (128, 256, 512, 1024)]
    # Loads in flight must fit a thread's registers, along with two dozen for addresses.
    return [config for config in configs if 4 * reads * config.unroll + 24 <= min(255, 65536 // config.threads)]


def second_round(best: list[Config], search: str) -> list[Config]:
    """Configurations around the best of the first round: other grids and hints."""
    # Registers for the loads in flight limit residency; more than 2048 threads are never resident.
    grids = [blocks for blocks in (1, 2, 4, 8, 16) if blocks * best[0].threads <= 2048]
    found = [replace(best[0], resident=blocks) for blocks in grids[-3:]]
    near = best[: 1 if search == "quick" else 3]
    return found + [replace(config, hint=hint) for hint in HINTS if hint != "none" for config in near]


def streams(arrays: Arrays, outs: Any, case: Any, mutates: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    """The arrays that are read and written. Output w is a copy of input w; for in-place operations, arrays that change
    come first."""
    reads, _, size = case.streams
    inputs = [arrays[name] for name in mutates]
    for name, array in arrays.items():
        if name not in mutates and hasattr(array, "nbytes") and array.nbytes == size:
            inputs.append(array)
    return inputs[:reads], [arrays[name] for name in mutates] if mutates else list(outs)


def extras(arrays: Arrays, case: Any, mutates: tuple[str, ...]) -> list[Any]:
    """The small arrays that are read in addition to the streams: weights, tables."""
    inputs, _ = streams(arrays, (), case, mutates)
    found = [array for array in arrays.values() if hasattr(array, "nbytes") and array.nbytes % 16 == 0]
    return [array for array in found if not any(array is one for one in inputs)]


def _peer(runner: Any, config: Config) -> Peer:
    case = runner.case
    reads, writes, size = case.streams
    if size % 16 or reads > 4 or writes > 3 or reads < writes:
        raise Unavailable(f"no kernel moves {reads}:{writes} arrays of {size} bytes")
    beside = len(extras(runner.sets[0], case, runner.mutates))
    if beside > 2:
        raise Unavailable(f"no kernel reads {beside} small arrays")
    defines = {"UNROLL": config.unroll, "THREADS": config.threads, "READS": reads, "WRITES": writes,
               "EXTRAS": beside, "HINT": HINTS.index(config.hint)}  # fmt: skip
    kernel = load("move.cu", "move", tuple(sorted(defines.items())))
    vectors = size // 16
    bound = kernel[(config.grid(vectors, runner.device.multiprocessors),), (config.threads,)]
    last = (np.int64(vectors), np.uint32(0))

    def launch(arrays: Arrays, outs: Any) -> tuple[Any, ...]:
        inputs, results = streams(arrays, outs, case, runner.mutates)
        small = extras(arrays, case, runner.mutates)
        sizes = [np.int64(array.nbytes // 16) for array in small] + [np.int64(0)] * (2 - beside)
        bound(*inputs, *[inputs[0]] * (4 - reads), *results, *[results[0]] * (3 - writes), *small,
              *[inputs[0]] * (2 - beside), *sizes, *last)  # fmt: skip
        return tuple(results)

    return Peer(launch, note=str(config))


def check(runner: Any, peer: Peer, outs: Any) -> None:
    """Checks that every output equals its input, bit for bit."""
    torch = runner.torch
    for i in (0, runner.plan.sets - 1):
        inputs, _ = streams(runner.sets[i], outs[i] if outs else None, runner.case, runner.mutates)
        wanted = [array.clone() for array in inputs[: runner.case.streams[1]]]
        results = peer.launch(runner.sets[i], outs[i] if outs else None)
        runner.device.synchronize()
        for result, array in zip(results, wanted, strict=True):
            if not torch.equal(result.flatten().view(torch.int16), array.flatten().view(torch.int16)):
                raise AssertionError(f"the ceiling kernel ({peer.note}) does not copy its inputs")


def search(runner: Any) -> tuple[Peer, Any]:
    """The fastest configuration as a peer, checked, and its outputs."""
    outs = runner.outputs(_peer(runner, Config()))
    launches = max(runner.plan.sets, runner.plan.launches // 4)

    def microseconds(config: Config) -> float:
        peer = _peer(runner, config)
        peer.launch(runner.sets[0], outs[0] if outs else None)
        replay, _ = runner.capture(peer, outs, launches, keep=False)
        burst = runner.device.burst(replay, launches, 1)
        return min(burst() for _ in range(2))

    times = {config: microseconds(config) for config in first_round(runner.settings.search, runner.case.streams[0])}
    for config in second_round(sorted(times, key=times.__getitem__), runner.settings.search):
        times[config] = microseconds(config)
    ranked = sorted(times, key=times.__getitem__)
    finalists = [config for hint in HINTS for config in [c for c in ranked if c.hint == hint][:2]]
    peers = {str(config): _peer(runner, config) for config in finalists}
    bursts = {}
    for name, peer in peers.items():
        replay, _ = runner.capture(peer, outs, runner.plan.launches, keep=False)
        bursts[name] = runner.device.burst(replay, runner.plan.launches, runner.plan.replays)
    race = measure.race(bursts, 3)
    best = peers[min(race, key=lambda name: measure.summarize(race[name]).median)]
    check(runner, best, outs)
    return best, outs

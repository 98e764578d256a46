"""Tuned kernels whose times the tests dictate: no test here asks a real clock which configuration is faster."""

from __future__ import annotations

import pytest
from kiln import knobs
from kiln.tune.tuning import Tuning


@pytest.fixture(autouse=True)
def cache(tmp_path):
    """A separate place for kept times."""
    with knobs.scope(cache=str(tmp_path / "cache")):
        yield tmp_path / "cache"


@pytest.fixture
def told(monkeypatch):
    """`told.times`: milliseconds by BLOCK (or an exception to raise); `told.sampled`: the BLOCKs that were sampled.
    `told.sustained`: the same for bursts, which clocks support only if it is set; `told.bursts`: the BLOCKs with
    bursts."""

    class Told:
        times: dict = {}
        sampled: list = []
        sustained: dict = {}
        bursts: list = []

    Told.times, Told.sampled, Told.sustained, Told.bursts = {}, [], {}, []

    def answer(times, sampled, block):
        sampled.append(block)
        if isinstance(times[block], BaseException):
            raise times[block]
        # Samples vary: half a percent up and down.
        return times[block] * (1 + 0.005 * (-1) ** len(sampled))

    class Sampler:
        def __init__(self, block):
            self.block = block

        def __call__(self):
            return answer(Told.times, Told.sampled, self.block)

        @property
        def sustained(self):
            return (lambda: answer(Told.sustained, Told.bursts, self.block)) if Told.sustained else None

    def samplers(self, configs):
        return {config: Sampler(config.kwargs["BLOCK"]) for config in configs}

    monkeypatch.setattr(Tuning, "_samplers", samplers)
    return Told

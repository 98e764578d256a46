"""Tuned kernels whose times are told by the tests: no test here asks a real clock which configuration is faster."""

from __future__ import annotations

import pytest
from kiln import knobs
from kiln.tune.race import Disqualified
from kiln.tune.tuning import Tuning


@pytest.fixture(autouse=True)
def cache(tmp_path):
    """A place of its own for what is kept."""
    with knobs.scope(cache=str(tmp_path / "cache")):
        yield tmp_path / "cache"


@pytest.fixture
def told(monkeypatch):
    """`told.times`: milliseconds by BLOCK (or an exception to raise); `told.sampled`: the BLOCKs that were sampled."""

    class Told:
        times: dict = {}
        sampled: list = []

    Told.times, Told.sampled = {}, []

    def samplers(self, configs):
        def sampler(config):
            def sample():
                block = config.kwargs["BLOCK"]
                Told.sampled.append(block)
                time = Told.times[block]
                if isinstance(time, Disqualified):
                    raise time
                if isinstance(time, BaseException):
                    raise time
                # Not all alike: half a percent up and down.
                return time * (1 + 0.005 * (-1) ** len(Told.sampled))

            return sample

        return {config: sampler(config) for config in configs}

    monkeypatch.setattr(Tuning, "_samplers", samplers)
    return Told

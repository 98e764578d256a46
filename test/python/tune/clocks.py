"""Simulated clocks with the errors of real machines, each from a seed: inputs for tests of races."""

from __future__ import annotations

import math
import random


class Clock:
    """`clock(true)` is a sample of something that takes `true`."""

    def __init__(self, seed: int):
        self.random, self.samples = random.Random(seed), 0

    def __call__(self, true: float) -> float:
        self.samples += 1
        return true * self.factor()

    def factor(self) -> float:
        raise NotImplementedError

    def noise(self, spread: float) -> float:
        return math.exp(self.random.gauss(0.0, spread))


class Quiet(Clock):
    """One percent of noise: replays of a graph on an idle GPU."""

    def factor(self):
        return self.noise(0.01)


class Noisy(Clock):
    """Five percent."""

    def factor(self):
        return self.noise(0.05)


class Spiky(Clock):
    """One sample in twenty is hit by an interrupt: up to five times as long."""

    def factor(self):
        return self.noise(0.02) * (self.random.uniform(1.5, 5.0) if self.random.random() < 0.05 else 1.0)


class Bimodal(Clock):
    """Three samples in ten, independently, are taken in the slower of two states."""

    def factor(self):
        return self.noise(0.01) * (1.3 if self.random.random() < 0.3 else 1.0)


class Sticky(Clock):
    """Two states that last about fifty samples each, as when a clock is lowered."""

    def __init__(self, seed):
        super().__init__(seed)
        self.state = 1.0

    def factor(self):
        if self.random.random() < 0.02:
            self.state = self.random.choice((1.0, 1.4))
        return self.noise(0.01) * self.state


class Drifting(Clock):
    """The machine warms up and its load varies: samples of the same thing differ by a factor of two."""

    def factor(self):
        return self.noise(0.01) * (1 + 0.5 * math.sin(self.samples / 97)) * (1 + self.samples / 500)


ALL = (Quiet, Noisy, Spiky, Bimodal, Sticky, Drifting)

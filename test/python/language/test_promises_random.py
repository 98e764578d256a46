"""Random promises and masks: whatever is dropped, the elements stored are those for which the mask holds."""

from __future__ import annotations

import itertools
import random

import kiln
import numpy as np
import pytest
from emitting import kernel_of

BLOCK = 32
LEAST, MOST = -(1 << 31), (1 << 31) - 1
# Numbers at which sums of 32 bits wrap, or are about to, and small ones.
EDGES = [
    LEAST,
    LEAST + 1,
    LEAST + BLOCK,
    -BLOCK,
    -1,
    0,
    1,
    BLOCK - 1,
    BLOCK,
    BLOCK + 1,
    100,
    MOST - BLOCK,
    MOST - 1,
    MOST,
]


def wrapped(value):
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class Number(int):
    """32 bits, which wrap."""

    def __add__(self, other):
        return Number(wrapped(int(self) + int(other)))

    def __sub__(self, other):
        return Number(wrapped(int(self) - int(other)))


def holds(comparison: str, **values: int) -> bool:
    return eval(comparison, {name: Number(value) for name, value in values.items()})


class Draw:
    """A kernel that stores whether a mask holds, after promises about its arguments."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        self.promises = [self.comparison(masks=False) for _ in range(self.random.randint(1, 3))]
        self.mask = self.comparison(masks=True)

    def side(self, name: str) -> str:
        constant = self.random.choice([0, 0, 0, 1, -1, BLOCK, -BLOCK, 1 - BLOCK])
        return name if constant == 0 else f"({name} {'+' if constant > 0 else '-'} {abs(constant)})"

    def comparison(self, masks: bool) -> str:
        pairs = [("start", "n")] * 6 + [("n", "start"), ("start", "m")]
        pairs += [] if masks else [(str(BLOCK), "n")] * 3
        left, right = self.random.choice(pairs)
        order = self.random.choice(["<", "<", "<="] if masks else ["<", "<=", "<=", "<=", ">"])
        if masks:
            left, right = (name.replace("start", "place") for name in (left, right))
        return f"{self.side(left)} {order} {self.side(right)}"

    def source(self) -> str:
        lines = [f"kl.assume({promise})" for promise in self.promises]
        lines += [f"place = start + kl.arange(0, {BLOCK})", f"mask = {self.mask}"]
        lines += [f"kl.store(out + kl.arange(0, {BLOCK}), 1, mask=mask)"]
        return "def kernel(out, start, n, m):\n" + "".join(f"    {line}\n" for line in lines)

    def arguments(self) -> list[dict[str, int]]:
        """Those for which the promises hold."""
        every = [
            {"start": start, "n": n, "m": self.random.choice(EDGES)} for start, n in itertools.product(EDGES, EDGES)
        ]
        return [given for given in every if all(holds(promise, **given) for promise in self.promises)]


@pytest.mark.cpu
@pytest.mark.parametrize("seed", range(60))
def test_masks_are_exact_where_promises_hold(seed):
    tries = (Draw(f"{seed}:{number}") for number in range(100))
    draw, arguments = next((draw, found) for draw in tries if (found := draw.arguments()))
    kernel = kiln.jit(kernel_of(draw.source()).fn)
    for given in arguments:
        out = np.zeros(BLOCK, np.int8)
        kernel[(1,)](out, *given.values())
        wanted = [holds(draw.mask, **given, place=wrapped(given["start"] + i)) for i in range(BLOCK)]
        np.testing.assert_array_equal(out, np.array(wanted, np.int8), err_msg=f"{draw.source()}{given}")

"""A branch on `kl.unlikely` is taken where its condition holds; where it does not, the CPU target takes it as well."""

from __future__ import annotations

import re

import kiln
import kiln.language as kl
import numpy as np
import pytest
from emitting import body, type_of
from running import evaluate

HOLDS = ["n > 0", "n", "f", "True", "N > 4", "N", "x > 6", "x", "(x * 256)", "x / 2", "(x > 6).reshape(2, 4)"]
FAILS = ["n < 0", "n - n", "0.0 * f", "False", "N > 8", "0", "x > 7", "x - x", "(x > 7).reshape(2, 4)"]


@pytest.mark.parametrize("condition", [*HOLDS, *(pytest.param(c, marks=pytest.mark.cpu) for c in FAILS)])
def test_the_branch_is_taken(condition):
    before = f"N: kl.constexpr = 8\nif kl.unlikely({condition}):\n    y = x + 1\nelse:\n    y = x - 1"
    x = np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(evaluate("y", ((8,), np.int32), before, x=x, n=3, f=0.5), x + 1)


@pytest.mark.cpu
def test_the_first_of_several_branches_is_taken():
    before = "if kl.unlikely(x > 9):\n    y = x + 1\nelif kl.unlikely(x > 8):\n    y = x + 2\nelse:\n    y = x + 3"
    x = np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(evaluate("y", ((8,), np.int32), before, x=x), x + 1)


@kiln.jit
def doubled_from_three(x):
    if kl.unlikely(x > 2):
        x = kl.where(x > 2, x * 2, x)
    return x


def test_a_function_of_elements_may_ask():
    @kiln.jit
    def kernel(x, out):
        i = kl.arange(0, 8)
        kl.store(out + i, kl.map_elementwise(doubled_from_three, kl.load(x + i)))

    x = np.arange(8, dtype=np.int32)
    out = np.zeros_like(x)
    kernel[(1,)](x, out)
    np.testing.assert_array_equal(out, np.where(x > 2, x * 2, x))


@pytest.mark.cpu
def test_the_answer_is_a_value_like_others():
    assert type_of("kl.unlikely(kl.arange(0, 8) > 9)") == "int1"
    x = np.arange(8, dtype=np.int32)
    for expression, expected in [
        ("kl.unlikely(x > 9)", 1),
        ("not kl.unlikely(x > 9)", 0),
        ("n > 3 or kl.unlikely(x > 9)", 1),
    ]:
        assert evaluate(f"kl.where({expression}, 1, 0)", ((), np.int32), x=x, n=3) == expected


@pytest.mark.parametrize("condition", ["n > 0", "n", "f", "N", "N > 8", "True", "x", "x > n", "x * f", "p"])
def test_conditions_are_those_of_other_functions(condition):
    parameters = {"n": "i32", "f": "fp32", "p": "*fp32", "N": 8}
    asked = body(f"x = kl.arange(0, 8)\ny = kl.unlikely({condition})", **parameters)
    asserted = body(f'x = kl.arange(0, 8)\nkl.device_assert({condition}, "")', **parameters)
    assert re.sub(r"%\d+ = tile\.unlikely (%\w+)", r'tile.assert \1, ""', asked) == asserted


@kiln.jit
def softmax(x, out, N: kl.constexpr):
    i = kl.arange(0, N)
    score = kl.load(x + i)
    weight = kl.exp(score)
    total = kl.sum(weight)
    if kl.unlikely(total > 1e30):
        weight = kl.exp(score - kl.max(score))
        total = kl.sum(weight)
    kl.store(out + i, weight / total)


@kiln.jit
def logsumexp(x, out, n, BLOCK: kl.constexpr):
    """Relative to a number that a branch raises where a block's weights would become too large."""
    top, total = 0.0, 0.0
    for start in range(0, n, BLOCK):
        score = kl.load(x + start + kl.arange(0, BLOCK))
        added = kl.sum(kl.exp(score - top))
        if kl.unlikely(added > 1e30):
            new_top = kl.maximum(top, kl.max(score))
            total *= kl.exp(top - new_top)
            top = new_top
            added = kl.sum(kl.exp(score - top))
        total += added
    kl.store(out, top + kl.log(total))


@pytest.mark.parametrize("largest", [1.0, 200.0])
def test_where_the_guess_is_not_good_enough_the_branch_is(largest):
    x = np.linspace(-1, largest, 256, dtype=np.float32)
    weight = np.exp(x.astype(np.float64) - largest)
    out = np.zeros_like(x)
    softmax[(1,)](x, out, 256)
    np.testing.assert_allclose(out, weight / weight.sum(), rtol=2e-5, atol=1e-37)
    logsumexp[(1,)](x, out, 256, 32)
    np.testing.assert_allclose(out[0], largest + np.log(weight.sum()), rtol=1e-6)


@kiln.jit
def guessed(x, out, n, GUESS: kl.constexpr):
    i = kl.arange(0, 256)
    value = kl.load(x + i)
    if GUESS != "":
        guess = kl.sqrt(kl.sin(value))
        if GUESS == "scan":
            guess = kl.cumsum(guess)
        if GUESS == "sort":
            guess = kl.sort(guess)
        if GUESS == "product":
            guess = kl.reshape(guess, (16, 16))
            guess = kl.dot(guess, guess)
        if GUESS == "loop":
            for _ in range(n):
                guess = kl.sqrt(guess)
        total = kl.sum(guess)
        if kl.unlikely(total > 3.0):
            total = kl.max(value)
    else:
        total = kl.max(value)
    kl.store(out + i, value + total)


@pytest.mark.cpu
@pytest.mark.parametrize("guess", ["sum", "scan", "sort", "product", "loop"])
def test_nothing_is_left_of_the_guess(guess):
    def code(guess: str, stage: str) -> str:
        text = guessed.warmup(kl.float32, kl.float32, 5, guess, grid=(1,)).asm[stage]
        return re.sub(r" loc\(.*\)$|^#loc.*\n|^//.*\n", "", text, flags=re.MULTILINE)

    assert "math.sqrt" in code(guess, "opt")
    for stage in ("cpu", "asm"):
        assert code(guess, stage) == code("", stage)

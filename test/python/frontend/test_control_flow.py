"""Control flow at run time: each program gives Python's result for every pair of small arguments."""

from __future__ import annotations

import kiln
import numpy as np
import pytest
from control_flow import PROGRAMS, SIDE, generate, run_in_python, source
from frontend_support import define

RANDOM_PROGRAMS = 120


def results(statements: str) -> np.ndarray:
    kernel = define(source(statements), jit=kiln.jit)
    out = np.full((SIDE, SIDE), -12345, np.int32)
    kernel[SIDE, SIDE](out)
    return out


def expected(statements: str) -> np.ndarray:
    return np.array([[run_in_python(statements, n, m) for m in range(SIDE)] for n in range(SIDE)], np.int32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_written(name):
    np.testing.assert_array_equal(results(PROGRAMS[name]), expected(PROGRAMS[name]))


@pytest.mark.parametrize("name", ["early_return", "triple", "step_of_unknown_sign", "tuple_carried"])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 1), (7, 1), (1, 6), (5, 4)])
def test_specialised_arguments(name, n, m):
    # An argument of 1 is a constexpr: the same program with a known value.
    kernel = define(source(PROGRAMS[name]), "direct", jit=kiln.jit)
    out = np.zeros(1, np.int32)
    kernel[1](out, n, m)
    assert out[0] == run_in_python(PROGRAMS[name], n, m)


@pytest.mark.parametrize("first", range(0, RANDOM_PROGRAMS, 20))
def test_random(first):
    for seed in range(first, first + 20):
        program = generate(seed)
        got, wanted = results(program), expected(program)
        assert np.array_equal(got, wanted), f"seed {seed}\n{program}\ngot {got.tolist()}\nwanted {wanted.tolist()}"


def test_tiles_are_carried_through_loops_with_exits():
    kernel = define(
        """
@jit
def kernel(x, n, limit, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    a = kl.zeros([BLOCK], kl.float32)
    b = kl.full([BLOCK], 1.0, kl.float32)
    for k in range(n):
        a, b = b, a + b
        if kl.sum(b) > limit:
            break
    else_value = a
    if n == 3:
        else_value = b * 2
    kl.store(x + i, else_value)
""",
        jit=kiln.jit,
    )
    for n, limit in [(0, 1e9), (3, 1e9), (10, 1e9), (10, 50.0)]:
        x = np.zeros(6, np.float32)
        kernel[1](x, n, limit, BLOCK=6)
        a, b = 0.0, 1.0
        for _ in range(n):
            a, b = b, a + b
            if 6 * b > limit:
                break
        np.testing.assert_array_equal(x, np.full(6, b * 2 if n == 3 else a, np.float32))


def test_an_early_return_keeps_others_from_writing():
    kernel = define(
        "@jit\ndef kernel(x, n):\n    pid = kl.program_id(0)\n    if pid >= n:\n        return\n"
        "    kl.store(x + pid, pid)\n",
        jit=kiln.jit,
    )
    x = np.full(8, -1, np.int32)
    kernel[8](x, 5)
    assert x.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]


def test_the_loop_condition_reads_nothing_after_break(monkeypatch):
    # The loop condition loads x[i]; after `break` it would read past the end.
    monkeypatch.setenv("KILN_CHECK", "bounds")
    kernel = define(
        "@jit\ndef kernel(x, out, n):\n    i = 0\n    while kl.load(x + i) > 0:\n        i += 1\n        if i == n:\n"
        "            break\n    kl.store(out, i)\n",
        jit=kiln.jit,
    )
    x, out = np.ones(5, np.int32), np.zeros(1, np.int32)
    kernel[1](x, out, 5)
    assert out[0] == 5


def test_changed_global_recompiles_at_the_next_launch():
    kernel = define("C = kl.constexpr(1)\n@jit\ndef kernel(x):\n    kl.store(x, C)\n", jit=kiln.jit)
    x = np.zeros(1, np.int32)
    kernel[1](x)
    assert x[0] == 1
    kernel.fn.__globals__["C"] = kl_constexpr(2)
    kernel[1](x)
    assert x[0] == 2


def kl_constexpr(value: int) -> object:
    import kiln.language as kl

    return kl.constexpr(value)

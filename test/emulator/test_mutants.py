"""The emulator's own tests find an instruction that does nothing.

Each mutant runs the hand-written tests in a separate process until one fails. `KILN_FUZZ_EMULATOR`: how many
instructions, drawn from a seed (all of them if it is not set).
"""

from __future__ import annotations

import os
import pathlib
import random
import signal

import pytest

from emulator import operation
from emulator.machine import Machine, prepared  # registers the instructions

pytestmark = pytest.mark.fuzz

HERE = pathlib.Path(__file__).parent
TESTS = [str(HERE / f"test_{name}.py") for name in ("machine", "barriers", "copies", "products")]

# Instructions that change no value: the emulator treats these as hints. membar is the old name of a fence, which Kiln
# does not emit.
HINTS = {"createpolicy", "membar", "nanosleep", "pmevent", "prefetch", "prefetchu"}
INSTRUCTIONS = sorted(set(operation._table) - HINTS)
COUNT = int(os.environ.get("KILN_FUZZ_EMULATOR", len(INSTRUCTIONS)))


def survives(mutate) -> bool:
    """Whether the tests pass under a mutation, applied in a child process."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            # This finds a mutant that never ends.
            signal.alarm(120)
            mutate()
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1, -signal.SIGALRM), f"the tests could not run: {code}"
    return code == 0


def test_they_pass_unchanged():
    assert Machine is not None
    assert survives(lambda: None)


@pytest.mark.parametrize("name", sorted(random.Random(7).sample(INSTRUCTIONS, min(COUNT, len(INSTRUCTIONS)))))
def test_an_instruction_that_does_nothing_is_found(name):
    def mutate():
        prepared.cache_clear()
        _, known = operation._table[name]
        operation._table[name] = (lambda instruction: lambda machine, lanes: None), known

    assert not survives(mutate)

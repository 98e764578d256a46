"""The emulator's own tests find every mutant of it: instructions that do nothing, and changes of single lines.

`KILN_FUZZ_JOBS`: how many processes share the work (as many as there are processors if it is not set).
`KILN_FUZZ_LINES`: one of that many changes of lines is tried, always the same ones (1, all of them, if it is not set).
"""

from __future__ import annotations

import os
import pathlib
import pickle
import zlib
from collections.abc import Callable

import pytest

from emulator import (
    access,
    arithmetic,
    barriers,
    communication,
    conversion,
    copies,
    fragments,
    memory,
    mutants,
    products,
)

pytestmark = pytest.mark.fuzz

HERE = pathlib.Path(__file__).parent
TESTS = ("machine", "native", "barriers", "copies", "products")
# What instructions do. The rest of the emulator (who runs when, what is ordered, what memory holds) is not mutated line
# by line; of memory.py only how addresses are computed is.
MODULES = (access, arithmetic, barriers, communication, conversion, copies, fragments, memory, products)
JOBS = int(os.environ.get("KILN_FUZZ_JOBS", os.cpu_count() or 1))
ONE_LINE_OF = int(os.environ.get("KILN_FUZZ_LINES", "1"))

EARLY = "copies may land before they are waited for, and it is an error to read what they write all the same"
# Changes that no test can observe: words of the mutant's name, and why.
UNOBSERVED = {
    "changes += 1: dropped": "counts progress: without it a deadlock may be reported after fewer attempts",
    "free[warp.block]` is True": "the wait is over at once",
    "cluster_barrier.times < times` is True": "the wait is over at once",
    "warp.impatient and done` without `warp.impatient`": "a warp may give up a wait at any time",
    "return None if done else YIELD": "it only ends the turn, and the loop around the wait asks again",
    "flight.key[2] <= done` is True": EARLY,
    "without `flight.key[:2] == ": EARLY,
    "without `flight.key[2] <= done`": EARLY,
    "flight.key[2] > done` is False": EARLY,
    "without `flight.key[:2] != ": EARLY,
    "without `flight.key[2] > done`": EARLY,
    "copies.py: _wait_bulk: continue": EARLY,
    "`not only_read` is True": EARLY,
    "`None if boxes else addresses_of": "the address of a box is not used",
    "_Source.read": "abstract",
    "access.py: _policy": "a policy changes no value",
}


def survivors(tests: tuple[str, ...], chosen: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """The mutants that no test finds, and all mutants. Runs in another process, whose pytest is not this one's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            hunt = mutants.Hunt(MODULES, JOBS, chosen)
            paths = [str(HERE / f"test_{name}.py") for name in tests]
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "--assert=plain"]
            code = int(pytest.main([*options, *paths], plugins=[hunt]))
            with os.fdopen(writer, "wb") as file:
                file.write(pickle.dumps((hunt.survivors, [mutant.name for mutant in hunt.mutants])))
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        result = file.read()
    assert os.waitpid(child, 0)[1] == 0, "the tests could not run: the output says why"
    return pickle.loads(result)


def test_what_cannot_be_observed_is_still_there():
    every = "\n".join(mutant.name for mutant in mutants.Hunt(MODULES, JOBS).mutants)
    assert [words for words in UNOBSERVED if words not in every] == []


def is_tried(name: str) -> bool:
    instruction = name.endswith("does nothing")
    if any(words in name for words in UNOBSERVED) or (name.startswith("memory.py") and "addresses_of" not in name):
        return False
    return instruction or zlib.crc32(name.encode()) % ONE_LINE_OF == 0


def test_every_mutant_is_found():
    left, every = survivors(TESTS, is_tried)
    assert len(every) > 1000 // ONE_LINE_OF
    assert left == []


def test_a_mutant_that_no_test_finds_is_reported():
    """These tests use neither products nor bits that are set."""
    few = {"mma does nothing", "popc does nothing", "bar does nothing"}
    left, every = survivors(("barriers",), few.__contains__)
    assert set(every) == few and left == ["mma does nothing", "popc does nothing"]
